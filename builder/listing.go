package builder

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// leftOut are files that differ between two runs of a package manager, or that may hold credentials, by their
// path below the Function's directory. No runtime reads them.
func leftOut() map[string]bool {
	names := map[string]bool{".git": true}
	for _, each := range languages.All() {
		names[each.Packages.Settings] = true
		for _, name := range each.Packages.Unstable {
			names[name] = true
		}
	}
	return names
}

// entry is a file of the layer.
type entry struct {
	name string // below the Function's directory; empty for itself
	file string
	info fs.FileInfo
}

// list walks in the order of names.
func list(dir string) ([]entry, error) {
	var entries []entry
	leftOut := leftOut()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(file, dir), "/")
		if leftOut[name] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.IsDir() || info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0 {
			entries = append(entries, entry{name: name, file: file, info: info})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the Function's directory: %w", err)
	}
	return entries, nil
}

// checkSize names what takes most of the space.
func checkSize(entries []entry, maxSize int64) error {
	if maxSize <= 0 {
		return nil
	}
	var total int64
	parts := map[string]int64{}
	for _, e := range entries {
		if e.info.Mode().IsRegular() {
			total += e.info.Size()
			parts[part(e.name)] += e.info.Size()
		}
	}
	if total <= maxSize {
		return nil
	}
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(parts[b], parts[a]), strings.Compare(a, b)) })
	largest := make([]string, 0, 3)
	for _, name := range names[:min(3, len(names))] {
		largest = append(largest, fmt.Sprintf("%s %s", name, megabytes(parts[name])))
	}
	return fail(language.ImageTooLarge, "source and dependencies take %s, and %s are allowed; the largest are %s; depend on less",
		megabytes(total), megabytes(maxSize), strings.Join(largest, ", "))
}

// part is the package that a file belongs to.
func part(name string) string {
	elements := strings.Split(name, "/")
	depth := 1
	if slices.ContainsFunc(languages.All(), func(l *language.Language) bool { return l.Packages.Dir == elements[0] }) {
		depth = 2
		if len(elements) > 2 && strings.HasPrefix(elements[1], "@") { // a scope of packages
			depth = 3
		}
	}
	return strings.Join(elements[:min(depth, len(elements))], "/")
}

func megabytes(bytes int64) string {
	if bytes < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d MiB", (bytes+1<<19)>>20)
}
