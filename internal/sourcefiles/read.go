package sourcefiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

const (
	// maxEntries bounds the files and folders that are visited, also those that are left out.
	maxEntries = 20_000
	// maxPatterns bounds the size of a file with patterns.
	maxPatterns = 1 << 20

	// The bounds of a working tree, which no ConfigMap carries.
	maxTreeFiles = 5000
	maxTreeBytes = 32 << 20
)

// ignoreFiles hold patterns of files to leave out, in the syntax of .gitignore. The later takes precedence.
var ignoreFiles = []string{".gitignore", ".rouseignore"}

// Read returns the files of a folder that belong to the source of a Function whose manifest is in it. It leaves out
// hidden files, what package managers install, manifests, what may hold credentials, what the ignore files match, and
// the folders of other Functions. The files fit into a ConfigMap.
func Read(dir string) (Files, error) {
	files, err := read(dir, false)
	if err != nil {
		return nil, err
	}
	for _, name := range files.Names() {
		if _, err := KeyOf(name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// ReadTree returns the files of a folder of a repository, as a commit of it would have them: all but those that Git
// ignores.
func ReadTree(dir string) (Files, error) { return read(dir, true) }

func read(dir string, tree bool) (Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer func() { _ = root.Close() }()
	r := &reader{root: root, tree: tree, files: Files{}, maxFiles: MaxFiles, maxBytes: MaxBytes}
	if tree {
		r.maxFiles, r.maxBytes = maxTreeFiles, maxTreeBytes
	}
	if err := r.folder("."); err != nil {
		return nil, err
	}
	if len(r.files) == 0 {
		return nil, errors.New("there are no files: write a handler beside the manifest")
	}
	return r.files, r.files.check(r.maxFiles, r.maxBytes)
}

// reader reads a folder. All accesses go through root, so that a link that is exchanged meanwhile gains nothing.
type reader struct {
	root               *os.Root
	tree               bool
	patterns           []gitignore.Pattern
	files              Files
	maxFiles, maxBytes int
	visited, bytes     int
}

func (r *reader) folder(name string) error {
	entries, err := r.entries(name)
	if err != nil {
		return err
	}
	if name != "." && !r.tree && r.isOthers(name, entries) {
		return nil
	}
	outer := len(r.patterns)
	if err := r.addPatterns(name); err != nil {
		return err
	}
	for _, entry := range entries {
		if r.visited++; r.visited > maxEntries {
			return fmt.Errorf("there are more than %d files: leave out in .rouseignore what the Function does not need", maxEntries)
		}
		if err := r.entry(path.Join(name, entry.Name()), entry); err != nil {
			return err
		}
	}
	r.patterns = r.patterns[:outer]
	return nil
}

// entries returns the content of a folder, sorted by name.
func (r *reader) entries(name string) ([]fs.DirEntry, error) {
	opened, err := r.root.Open(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer func() { _ = opened.Close() }()
	entries, err := opened.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("folder %q cannot be read: %w", name, withoutPath(err))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func (r *reader) entry(name string, entry fs.DirEntry) error {
	if r.leavesOut(name, entry) {
		return nil
	}
	kind := entry.Type()
	switch {
	case kind.IsDir():
		return r.folder(name)
	case kind&fs.ModeSymlink != 0:
		return r.link(name)
	case !kind.IsRegular():
		return fmt.Errorf("%q is neither a file nor a folder: leave it out in .rouseignore", name)
	}
	return r.file(name)
}

// link adds the file that a link leads to. What it leads to has to be in the folder.
func (r *reader) link(name string) error {
	info, err := r.root.Stat(name)
	target, _ := r.root.Readlink(name) // Stat fails, too
	switch {
	case err != nil:
		return fmt.Errorf("link %q leads out of the folder or to nothing: replace it by what it should lead to", name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("link %q leads to something that is no file: replace it, or leave it out in .rouseignore", name)
	case !r.tree && isPrivate(path.Base(target)):
		return fmt.Errorf("link %q leads to %s, which may hold credentials: leave it out in .rouseignore", name, path.Base(target))
	}
	return r.file(name)
}

func (r *reader) file(name string) error {
	if len(r.files) >= r.maxFiles {
		return fmt.Errorf("there are more than %d files: leave out in .rouseignore what the Function does not need", r.maxFiles)
	}
	// Opening a pipe that took the file's place must not wait for a writer.
	opened, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("file %q cannot be read: %w", name, withoutPath(err))
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%q is no file any more", name)
	}
	content, err := io.ReadAll(io.LimitReader(opened, int64(r.maxBytes-r.bytes)+1))
	if err != nil {
		return fmt.Errorf("file %q cannot be read: %w", name, withoutPath(err))
	}
	if r.bytes += len(content); r.bytes > r.maxBytes {
		return r.tooLarge(name, info.Size())
	}
	if !r.tree && isManifest(name, content) {
		r.bytes -= len(content)
		return nil
	}
	r.files[name] = content
	return nil
}

// tooLarge names the largest file so far, which is the likeliest to leave out.
func (r *reader) tooLarge(name string, size int64) error {
	for other, content := range r.files {
		if int64(len(content)) > size {
			name, size = other, int64(len(content))
		}
	}
	return fmt.Errorf("the files take more than %s; the largest that was read is %s with %s: leave it out in .rouseignore, "+
		"or keep the source in a Git repository", sizeText(r.maxBytes), name, sizeText(int(size)))
}

// secret matches names of files that commonly hold credentials, or that are for one machine alone.
var secret = regexp.MustCompile(`(?i)^id_(rsa|dsa|ecdsa|ed25519)$|\.(pem|key|p12|pfx|jks|keystore)$|\.local\.ya?ml$`)

// made matches names of files and folders that tools write: packages, bytecode, copies of editors.
var made = regexp.MustCompile(`^(node_modules|__pycache__|venv)$|\.py[co]$|~$|\.tsbuildinfo$`)

// leavesOut reports whether a file does not belong to the source. No pattern brings back what may hold credentials.
func (r *reader) leavesOut(name string, entry fs.DirEntry) bool {
	base := path.Base(name)
	if r.tree {
		return base == ".git" || base == "node_modules" || r.ignores(name, entry)
	}
	return isPrivate(base) || made.MatchString(base) || r.ignores(name, entry)
}

// isPrivate reports whether a file is hidden or may hold credentials.
func isPrivate(base string) bool { return strings.HasPrefix(base, ".") || secret.MatchString(base) }

func (r *reader) ignores(name string, entry fs.DirEntry) bool {
	return gitignore.NewMatcher(r.patterns).Match(strings.Split(name, "/"), entry.IsDir())
}

func (r *reader) addPatterns(folder string) error {
	var domain []string
	if folder != "." {
		domain = strings.Split(folder, "/")
	}
	for _, name := range ignoreFiles {
		if r.tree && name != ignoreFiles[0] {
			continue
		}
		content, err := r.patternsIn(path.Join(folder, name))
		if err != nil {
			return err
		}
		r.patterns = append(r.patterns, Patterns(content, domain)...)
	}
	return nil
}

// Patterns parses a file in the syntax of .gitignore. Its patterns are about what is below the domain, the names on the way to
// its folder.
func Patterns(content string, domain []string) []gitignore.Pattern {
	var patterns []gitignore.Pattern
	for line := range strings.Lines(content) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, gitignore.ParsePattern(line, domain))
		}
	}
	return patterns
}

func (r *reader) patternsIn(name string) (string, error) {
	info, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPatterns {
		return "", fmt.Errorf("%q has to be a file of at most %s", name, sizeText(maxPatterns))
	}
	content, err := r.root.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("file %q cannot be read: %w", name, withoutPath(err))
	}
	return string(content), nil
}

var (
	// manifest matches YAML with kinds that belong to a deployment and not to a source.
	manifest = regexp.MustCompile(`(?m)^\s*["']?kind["']?\s*:\s*["']?` +
		`(?:Function|Subscription|Schedule|Door|APIRule|GitRepository|Kustomization|ConfigMap|Secret)(?:List)?\b`)
	// function matches YAML with a Function.
	function = regexp.MustCompile(`(?m)^\s*["']?kind["']?\s*:\s*["']?Function(?:List)?\b`)
	yamlName = regexp.MustCompile(`(?i)\.ya?ml$`)
	// kustomization matches the files that Kustomize reads, which need no kind.
	kustomization = regexp.MustCompile(`^(kustomization\.ya?ml|Kustomization)$`)
)

func isManifest(name string, content []byte) bool {
	base := path.Base(name)
	return kustomization.MatchString(base) || yamlName.MatchString(base) && manifest.Match(content)
}

// isOthers reports whether a folder below has a Function's manifest, so that its files belong to that.
func (r *reader) isOthers(folder string, entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(entry fs.DirEntry) bool {
		if !entry.Type().IsRegular() || !yamlName.MatchString(entry.Name()) {
			return false
		}
		info, err := entry.Info()
		if err != nil || info.Size() > MaxBytes {
			return false
		}
		content, err := r.root.ReadFile(path.Join(folder, entry.Name()))
		return err == nil && function.Match(content)
	})
}

// withoutPath returns the reason in an error of the file system.
func withoutPath(err error) error {
	if whole, ok := errors.AsType[*fs.PathError](err); ok {
		return whole.Err
	}
	return err
}
