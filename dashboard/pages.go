package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
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

// index is the page of all paths that are no file: its script shows the view of the path.
const index = "index.html"

// kinds lists the content types, which must not depend on the machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// pages are all files by their paths.
type pages map[string]page

func readPages() (pages, error) {
	found := pages{}
	err := fs.WalkDir(embedded, "pages", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		kind := kinds[path.Ext(name)]
		if kind == "" {
			return fmt.Errorf("%s has no content type", name)
		}
		sum := sha256.Sum256(content)
		found[strings.TrimPrefix(name, "pages/")] = page{
			kind: kind, tag: hex.EncodeToString(sum[:8]), plain: content, gzip: compressed(content),
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the pages of the dashboard: %w", err)
	}
	return found, nil
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
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	found, known := p[name]
	if !known {
		if path.Ext(name) != "" {
			fail(w, http.StatusNotFound, "there is no such file")
			return
		}
		found = p[index]
	}
	header := w.Header()
	header.Set("Content-Type", found.kind)
	header.Set("Cache-Control", "no-cache") // ask each time, and be answered 304
	header.Set("Vary", "Accept-Encoding")
	content, tag := found.plain, `"`+found.tag+`"`
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
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
