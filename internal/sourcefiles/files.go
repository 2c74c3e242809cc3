package sourcefiles

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	// MaxBytes bounds the content of all files: an API server accepts no larger ConfigMap.
	MaxBytes = 1 << 20
	// MaxFiles bounds their number.
	MaxFiles = 1000
	// maxKey is the length of the longest key of a ConfigMap.
	maxKey = 253
	// separator stands for a slash in the keys of a ConfigMap, which cannot have one.
	separator = ".."
)

// Files holds the content of files by their paths in the Function's directory, with slashes.
type Files map[string][]byte

// portable matches the paths whose keys an API server accepts.
var portable = regexp.MustCompile(`^[-._a-zA-Z0-9/]+$`)

// KeyOf returns the key that carries a file in a ConfigMap.
func KeyOf(name string) (string, error) {
	switch {
	case !portable.MatchString(name):
		return "", fmt.Errorf("%q has a character that no key of a ConfigMap may have: use letters, digits, '-', '_' and '.', "+
			"or leave it out in .rouseignore", name)
	case strings.Contains(name, separator):
		return "", fmt.Errorf("%q contains %q, which stands for a slash in keys of a ConfigMap: rename it", name, separator)
	}
	key := strings.ReplaceAll(name, "/", separator)
	if len(key) > maxKey {
		return "", fmt.Errorf("%q is too long for a key of a ConfigMap, which has at most %d characters: shorten it", name, maxKey)
	}
	return key, pathError(name)
}

// PathOf returns the path of the file that a key of a ConfigMap carries.
func PathOf(key string) (string, error) {
	name := strings.ReplaceAll(key, separator, "/")
	if err := pathError(name); err != nil {
		return "", fmt.Errorf("key %q: %w", key, err)
	}
	return name, nil
}

// pathError returns an error for a path that is not the only form of a path below the Function's directory.
func pathError(name string) error {
	if name == "" || name == "." || path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "../") || name == ".." {
		return fmt.Errorf("%q is no path of a file below the Function's directory", name)
	}
	return nil
}

// FromConfigMap returns the files that the keys of a ConfigMap carry.
func FromConfigMap(text map[string]string, binary map[string][]byte) (Files, error) {
	files := make(Files, len(text)+len(binary))
	for key, content := range text {
		name, err := PathOf(key)
		if err != nil {
			return nil, err
		}
		files[name] = []byte(content)
	}
	for key, content := range binary {
		name, err := PathOf(key)
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	if len(files) == 0 {
		return nil, errors.New("it has no keys: add a key for each file")
	}
	return files, files.check(MaxFiles, MaxBytes)
}

// Data returns the keys of a ConfigMap that carries the files.
func (f Files) Data() (text map[string]string, binary map[string][]byte, err error) {
	text, binary = map[string]string{}, map[string][]byte{}
	for name, content := range f {
		key, err := KeyOf(name)
		if err != nil {
			return nil, nil, err
		}
		if utf8.Valid(content) {
			text[key] = string(content)
		} else {
			binary[key] = content
		}
	}
	return text, binary, nil
}

// Names returns the paths, sorted.
func (f Files) Names() []string { return slices.Sorted(maps.Keys(f)) }

// Write writes the files into an empty folder.
func (f Files) Write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write the Function's source: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, name := range f.Names() {
		if err := errors.Join(root.MkdirAll(path.Dir(name), 0o700), root.WriteFile(name, f[name], 0o600)); err != nil {
			return fmt.Errorf("write the Function's source: %w", err)
		}
	}
	return nil
}

// Size returns the bytes of all contents.
func (f Files) Size() int {
	total := 0
	for _, content := range f {
		total += len(content)
	}
	return total
}

// Digest identifies the files: a SHA-256 in hexadecimal digits of their paths and contents.
func (f Files) Digest() string {
	hash := sha256.New()
	for _, name := range f.Names() {
		_, _ = fmt.Fprintf(hash, "%d:%s%d:", len(name), name, len(f[name]))
		_, _ = hash.Write(f[name])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// check returns an error if the files exceed a bound or cannot lie beside each other on every machine.
func (f Files) check(maxFiles, maxBytes int) error {
	if len(f) > maxFiles {
		return fmt.Errorf("there are %d files, and %d are allowed: leave out what the Function does not need", len(f), maxFiles)
	}
	if size := f.Size(); size > maxBytes {
		return fmt.Errorf("the files take %s, and %s are allowed; the largest is %s", sizeText(size), sizeText(maxBytes), f.largest())
	}
	seen := make(map[string]string, len(f))
	for _, name := range f.Names() {
		if other, found := seen[strings.ToLower(name)]; found {
			return fmt.Errorf("%q and %q differ only in case, which not every machine distinguishes: rename one", other, name)
		}
		seen[strings.ToLower(name)] = name
	}
	for _, name := range f.Names() {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if other, found := seen[strings.ToLower(folder)]; found {
				return fmt.Errorf("%q is a file and the folder of %q: rename one", other, name)
			}
		}
	}
	return nil
}

func (f Files) largest() string {
	name := slices.MaxFunc(f.Names(), func(a, b string) int { return cmp.Compare(len(f[a]), len(f[b])) })
	return fmt.Sprintf("%s with %s", name, sizeText(len(f[name])))
}

func sizeText(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d KiB", (bytes+1023)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// Over returns the Function's directory: the files, and of an inline source what the files do not contain, the
// dependencies without their manifest and the handler without any handler.
func (f Files) Over(l *language.Language, source, dependencies string) Files {
	all := maps.Clone(f)
	if all == nil {
		all = Files{}
	}
	manifest := l.Packages.Manifest
	if _, found := all[manifest]; !found && strings.TrimSpace(dependencies) != "" {
		all[manifest] = []byte(dependencies)
	}
	if !f.HasHandler(l) && strings.TrimSpace(source) != "" {
		all[l.Handler] = []byte(source)
	}
	return all
}

// HasHandler reports whether the files contain a handler.
func (f Files) HasHandler(l *language.Language) bool {
	if l.Bundled != nil {
		has := func(name string) bool { _, found := f[path.Clean(name)]; return found }
		if entry, problem := l.Bundled.Entry(has, f[l.Packages.Manifest]); entry != "" || problem != "" {
			return true
		}
	}
	return slices.ContainsFunc(l.Handlers(f[l.Packages.Manifest]), func(candidate language.Candidate) bool {
		_, found := f[path.Clean(candidate.File)]
		return found
	})
}
