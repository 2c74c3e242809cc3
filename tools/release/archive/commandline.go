package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/tools/pack"
	"github.com/rouse-run/rouse/tools/release/program"
)

// Extras writes what comes with the command line on every platform into a directory: completion for four shells, and pages for man. It
// is asked of a command that runs on this machine.
func Extras(ctx context.Context, command, dir string) error {
	completion := filepath.Join(dir, "completion")
	if err := os.MkdirAll(completion, 0o755); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "rouse.bash", "zsh": "_rouse", "fish": "rouse.fish", "powershell": "rouse.ps1"} {
		script, err := program.Program{}.Run(ctx, command, "completion", shell)
		if err != nil {
			return fmt.Errorf("make completion for %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(completion, name), []byte(script), 0o644); err != nil {
			return err
		}
	}
	if _, err := (program.Program{}).Run(ctx, command, "man", filepath.Join(dir, "man", "man1")); err != nil {
		return fmt.Errorf("make the pages for man: %w", err)
	}
	return nil
}

// CommandLine packs a command with what comes with it and documents of the source tree.
func CommandLine(file, command, extras, source string, documents ...string) error {
	files, err := pack.Tree(extras)
	if err != nil {
		return fmt.Errorf("list what comes with the command: %w", err)
	}
	packed := []pack.File{{Path: "/rouse", Source: command}}
	for _, each := range files {
		if each.Source != "" {
			each.Mode = 0o644
			packed = append(packed, each)
		}
	}
	for _, name := range documents {
		packed = append(packed, pack.File{Path: "/" + name, Source: filepath.Join(source, name), Mode: 0o644})
	}
	return Write(file, packed)
}
