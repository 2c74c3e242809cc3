package release

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/image"
)

// goroot is where the official images have Go.
const goroot = "/usr/local/go"

// goLayer puts a toolchain where the official images have it, and returns its go command on this machine.
func (s Source) goLayer(ctx context.Context, version string) (image.Layer, string, error) {
	found, err := s.toolchain(ctx, version)
	if err != nil {
		return image.Layer{}, "", err
	}
	layer, err := s.Store.Layer("go", version, func(file string) error {
		files, err := image.Tree(found)
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f image.File) bool { return unusedOfGo(f.Path) })
		for i := range files {
			files[i].Path = goroot + files[i].Path
		}
		return image.Files(file, files)
	})
	return layer, filepath.Join(found, "bin", "go"), err
}

// toolchain is the folder of a version: this machine's, when it has that one, or else the module proxy's in the cache of modules.
func (s Source) toolchain(ctx context.Context, version string) (string, error) {
	fetch := command.Command{
		Name: "go", Args: []string{"env", "GOROOT"}, Dir: s.Logs, Env: []string{"GOTOOLCHAIN=go" + version, "GOFLAGS="},
		Log: filepath.Join(s.Logs, "go-"+version+".log"),
	}
	printed, err := fetch.Run(ctx)
	if err != nil {
		return "", fmt.Errorf("fetch Go %s: %w", version, err)
	}
	return filepath.EvalSymlinks(strings.TrimSpace(printed))
}

// unusedOfGo are parts of a toolchain that compile nothing: its tests and documents, and what an installation has compiled.
func unusedOfGo(path string) bool {
	for _, folder := range []string{"/test", "/doc", "/api", "/misc", "/pkg/obj", "/pkg/mod"} {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") || path == "/go.env"
}
