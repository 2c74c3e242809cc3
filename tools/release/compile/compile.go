package compile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/tools/release/program"
)

// Compiler builds from a source tree.
type Compiler struct {
	Source string
	Flags  string // the linker's
}

// CommandLine is the one command that people run; all others run in a cluster.
const CommandLine = "rouse"

// Servers builds what runs in a cluster into a directory, and returns the names in their order.
func (c Compiler) Servers(ctx context.Context, platform v1.Platform, out string) ([]string, error) {
	folders, err := os.ReadDir(filepath.Join(c.Source, "cmd"))
	if err != nil {
		return nil, fmt.Errorf("list the commands: %w", err)
	}
	var names []string
	for _, folder := range folders {
		if folder.Name() != CommandLine {
			names = append(names, folder.Name())
		}
	}
	slices.Sort(names)
	return names, c.build(ctx, platform, out, names...)
}

// Command builds the command line into a directory.
func (c Compiler) Command(ctx context.Context, platform v1.Platform, out string) error {
	return c.build(ctx, platform, out, CommandLine)
}

func (c Compiler) build(ctx context.Context, platform v1.Platform, out string, names ...string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", c.Flags, "-o", out + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	compiler := program.Program{Dir: c.Source, Env: []string{
		"CGO_ENABLED=0", "GOOS=" + platform.OS, "GOARCH=" + platform.Architecture, "GOFLAGS=", "GOWORK=off", "GOFIPS140=v1.0.0",
		"GOAMD64=v1", "GOARM64=v8.0",
	}}
	if _, err := compiler.Run(ctx, "go", args...); err != nil {
		return fmt.Errorf("compile for %s/%s: %w", platform.OS, platform.Architecture, err)
	}
	for _, name := range names {
		if err := check(filepath.Join(out, name), platform); err != nil {
			return err
		}
	}
	return nil
}
