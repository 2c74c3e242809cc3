package release

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/tools/pack"
)

// goroot is where the official images have Go.
const goroot = "/usr/local/go"

// goLayer puts a toolchain where the official images have it, and returns its go command on this machine.
func (s Source) goLayer(ctx context.Context, version string) (image.Layer, string, error) {
	found, err := s.toolchain(ctx, version)
	if err != nil {
		return image.Layer{}, "", err
	}
	layer, err := s.goTree(version, native, found)
	return layer, filepath.Join(found, "bin", "go"), err
}

// goTree puts a toolchain's folder where the official images have it.
func (s Source) goTree(version, architecture, found string) (image.Layer, error) {
	return s.Store.Layer("go-"+architecture, version, func(file string) error {
		files, err := pack.Tree(found)
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f pack.File) bool { return unusedOfGo(f.Path) })
		for i := range files {
			files[i].Path = goroot + files[i].Path
		}
		return pack.Files(file, files)
	})
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
