package eventschema

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// maxEntries bounds the files and folders that are looked at.
const maxEntries = 20_000

// ReadFolder returns the schemas of a folder and of the folders below, and the problems by the paths of their files. Hidden files and folders, and
// what package managers install, are left out.
func ReadFolder(folder fs.FS) (Set, map[string]error, error) {
	paths, problems, err := findSchemas(folder)
	if err != nil {
		return nil, nil, err
	}
	files := map[string][]byte{}
	for base, name := range paths {
		if files[base], err = readBounded(folder, name); err != nil {
			return nil, nil, err
		}
	}
	set, wrong := Read(files)
	for base, problem := range wrong {
		problems[paths[base]] = problem
	}
	return set, problems, nil
}

// findSchemas returns the paths of schemas by their file names, and the problems of those whose name is taken.
func findSchemas(folder fs.FS) (paths map[string]string, twice map[string]error, err error) {
	paths, twice = map[string]string{}, map[string]error{}
	entries := 0
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		entries++
		switch {
		case err != nil && name == ".":
			return err
		case entries > maxEntries:
			return fs.SkipAll
		case err == nil && entry.IsDir() && isSkipped(name):
			return fs.SkipDir
		case err != nil || !isSchema(folder, name): // what cannot be read has no schemas
		case paths[base] != "":
			twice[name] = errors.New("the type has a schema already, in " + paths[base])
		default:
			paths[base] = name
		}
		return nil //nolint:nilerr // as above
	})
	return paths, twice, err
}

// isSkipped reports whether a folder is hidden, or has what a package manager installs.
func isSkipped(folder string) bool {
	base := path.Base(folder)
	return folder != "." && (strings.HasPrefix(base, ".") || base == "node_modules")
}

// isSchema reports whether a path is a regular file with the name of a schema. Reading a pipe would never end.
func isSchema(folder fs.FS, name string) bool {
	base := path.Base(name)
	if strings.HasPrefix(base, ".") || !strings.HasSuffix(base, Suffix) {
		return false
	}
	info, err := fs.Stat(folder, name)
	return err == nil && info.Mode().IsRegular()
}

// readBounded reads one byte more than a schema may have, which Parse refuses.
func readBounded(folder fs.FS, name string) ([]byte, error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, MaxBytes+1))
}

// Current has the schemas that are in force, which may change at any time. Its zero value has none.
type Current struct{ set atomic.Pointer[Set] }

// Use puts schemas in force.
func (c *Current) Use(set Set) { c.set.Store(&set) }

// Set returns the schemas in force.
func (c *Current) Set() Set {
	if set := c.set.Load(); set != nil {
		return *set
	}
	return nil
}

// Check is that of the schemas in force.
func (c *Current) Check(ev *cloudevent.Event) error { return c.Set().Check(ev) }

// Texts returns the schemas in force as they were written, by their types.
func (c *Current) Texts() map[string][]byte {
	texts := map[string][]byte{}
	for eventType, schema := range c.Set() {
		texts[eventType] = schema.Text
	}
	return texts
}

// Follow puts the schemas of a folder in force whenever it has changed, until ctx ends. A type whose new schema cannot be used keeps the one before;
// problem is called with each new problem. A folder that cannot be read changes nothing.
func (c *Current) Follow(ctx context.Context, folder fs.FS, interval time.Duration, problem func(file string, err error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	told := map[string]string{}
	for {
		set, problems, err := ReadFolder(folder)
		if err == nil {
			before := c.Set()
			for file := range problems {
				eventType := strings.TrimSuffix(path.Base(file), Suffix)
				if kept := before[eventType]; kept != nil && set[eventType] == nil {
					set[eventType] = kept
				}
			}
			c.Use(set)
		} else {
			problems = map[string]error{".": err}
		}
		for file, wrong := range problems {
			if told[file] != wrong.Error() {
				problem(file, wrong)
			}
		}
		clear(told)
		for file, wrong := range problems {
			told[file] = wrong.Error()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
