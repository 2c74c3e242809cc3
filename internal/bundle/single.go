package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/rouse-run/rouse/runtimes/language"
)

// Single returns the handler in dir, compiled or not, and the files that it imports as one script, and the files that are not part of it.
// The script is empty if the source can only be a module. The error is an *Error if the source is to blame.
func Single(ctx context.Context, l *language.Language, dir string) (script string, left []string, err error) {
	entry, err := Entry(l, dir)
	if err == nil && entry == "" {
		entry, err = loaded(l, dir)
	}
	if err != nil {
		return "", nil, err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", nil, fmt.Errorf("find the source: %w", err)
	}
	settings := options(resolved, entry, l.Bundled.Script, api.FormatCommonJS)
	settings.Sourcemap, settings.Metafile = api.SourceMapNone, true // the runtime reads no map of an inline source
	result, err := run(ctx, settings)
	if err != nil || onlyModule(result) {
		return "", nil, err
	}
	outputs, err := outcome(result)
	if err != nil {
		return "", nil, err
	}
	left, err = unused(result.Metafile, dir)
	return string(outputs[0].Contents), left, err
}

// loaded returns the handler that the runtime would load.
func loaded(l *language.Language, dir string) (string, error) {
	manifest, _ := os.ReadFile(filepath.Join(dir, l.Packages.Manifest)) //nolint:gosec // a fixed name; the package manager reports an unreadable file
	for _, candidate := range l.Handlers(manifest) {
		if info, err := os.Stat(filepath.Join(dir, candidate.File)); err == nil && info.Mode().IsRegular() {
			return candidate.File, nil
		}
	}
	return "", &Error{Problems: []string{"there is no " + l.Handler}}
}

// unused lists the files in dir that the compiler has not read.
func unused(metafile, dir string) ([]string, error) {
	var read struct {
		Inputs map[string]json.RawMessage `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &read); err != nil {
		return nil, fmt.Errorf("read what was compiled: %w", err)
	}
	var left []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if _, found := read.Inputs[filepath.ToSlash(name)]; err == nil && !found {
			left = append(left, filepath.ToSlash(name))
		}
		return err
	})
	slices.Sort(left)
	return left, err
}
