package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed pages
var embedded embed.FS

// policy allows scripts, styles, pictures and connections of the page's own origin, and nothing else. Browsers that know Trusted Types
// make no markup of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// protect sets the headers that every response has.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// page is a file as it is served.
type page struct {
	kind, tag   string
	plain, gzip []byte
}

const (
	// index is the page of all paths that are no file: its script shows the view of the path.
	index = "index.html"
	// static is the path below which files have that of their version: what it names never changes.
	static  = "static/"
	forever = "public, max-age=31536000, immutable"
)

// kinds lists the content types, which must not depend on the machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// pages are all files by their paths.
type pages struct {
	version string // of all files
	files   map[string]page
}

// readPages reads the files, for a home with sessions or with a token in the page.
func readPages(sessions bool) (pages, error) {
	found, all := pages{files: map[string]page{}}, sha256.New()
	var text []byte
	err := fs.WalkDir(embedded, "pages", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		all.Write(content)
		name = strings.TrimPrefix(name, "pages/")
		if name == index {
			text = content
			return nil
		}
		return found.add(name, content)
	})
	if err == nil {
		found.version = hex.EncodeToString(all.Sum(nil)[:8])
		err = found.add(index, found.complete(text, sessions))
	}
	if err != nil {
		return found, fmt.Errorf("read the pages of the dashboard: %w", err)
	}
	return found, nil
}

func (p *pages) add(name string, content []byte) error {
	kind := kinds[path.Ext(name)]
	if kind == "" {
		return fmt.Errorf("%s has no content type", name)
	}
	sum := sha256.Sum256(content)
	p.files[name] = page{kind: kind, tag: hex.EncodeToString(sum[:8]), plain: content, gzip: compressed(content)}
	return nil
}

var (
	// local finds the files that the index names, and imports the modules that a script does.
	local   = regexp.MustCompile(`(href|src)="/([^"#]+)"`)
	imports = regexp.MustCompile(`(?m)^import [^"]*"(\.{1,2}/[^"]+)";`)
)

// complete returns the index with the version of the files that it names. It has browsers load all modules at once, not each when another
// one has asked for it, and says whether users log in, for which the scripts would have to ask else.
func (p *pages) complete(text []byte, sessions bool) []byte {
	text = local.ReplaceAll(text, []byte(`$1="/`+static+p.version+`/$2"`))
	modules := map[string]bool{}
	for name, file := range p.files {
		for _, found := range imports.FindAllSubmatch(file.plain, -1) {
			modules[path.Join(path.Dir(name), string(found[1]))] = true
		}
	}
	var head bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		fmt.Fprintf(&head, "<link rel=\"modulepreload\" href=\"/%s%s/%s\">\n", static, p.version, name)
	}
	if sessions {
		head.WriteString("<meta name=\"login\" content=\"session\">\n")
	}
	return bytes.Replace(text, []byte("</head>"), append(head.Bytes(), "</head>"...), 1)
}

func compressed(content []byte) []byte {
	var buffer bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&buffer, gzip.BestCompression) // the level is valid
	_, _ = writer.Write(content)                                    // into memory
	_ = writer.Close()
	return buffer.Bytes()
}

// ServeHTTP serves the file of a path, and the index for the path of a view.
func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, http.StatusMethodNotAllowed, "use GET")
		return
	}
	name, caching := strings.TrimPrefix(path.Clean(r.URL.Path), "/"), "no-cache" // ask each time, and be answered 304
	if versioned, is := strings.CutPrefix(name, static); is {
		version, file, _ := strings.Cut(versioned, "/")
		name = file
		if version == p.version { // else a page of another release asks
			caching = forever
		}
	}
	found, known := p.files[name]
	if !known {
		if path.Ext(name) != "" {
			fail(w, http.StatusNotFound, "there is no such file")
			return
		}
		found, caching = p.files[index], "no-cache"
	}
	header := w.Header()
	header.Set("Content-Type", found.kind)
	header.Set("Cache-Control", caching)
	header.Set("Vary", "Accept-Encoding")
	content, tag := found.plain, `"`+found.tag+`"`
	if takesGzip(r) {
		header.Set("Content-Encoding", "gzip")
		content, tag = found.gzip, `"`+found.tag+`-gzip"`
	}
	header.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // the client may be gone
	}
}
