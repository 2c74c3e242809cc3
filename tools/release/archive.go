package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/tools/pack"
)

// writeArchive packs files into an archive.
func writeArchive(file string, files []pack.File) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("create an archive: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := pack.Write(compressed, files); err != nil {
		return fmt.Errorf("pack %s: %w", file, err)
	}
	return compressed.Close()
}

// writeExtras writes the platform-independent files that accompany the command line into a directory: completion for
// four shells, and man pages. It generates them with a command that runs on this machine.
func writeExtras(ctx context.Context, command, dir string) error {
	completion := filepath.Join(dir, "completion")
	if err := os.MkdirAll(completion, 0o755); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "rouse.bash", "zsh": "_rouse", "fish": "rouse.fish", "powershell": "rouse.ps1"} {
		script, err := program{}.Run(ctx, command, "completion", shell)
		if err != nil {
			return fmt.Errorf("make completion for %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(completion, name), []byte(script), 0o644); err != nil {
			return err
		}
	}
	if _, err := (program{}).Run(ctx, command, "man", filepath.Join(dir, "man", "man1")); err != nil {
		return fmt.Errorf("make the pages for man: %w", err)
	}
	return nil
}

// packCommandLine packs a command with the accompanying files and documents of the source tree.
func packCommandLine(file, command, extras, source string, documents ...string) error {
	files, err := pack.Tree(extras)
	if err != nil {
		return fmt.Errorf("list the files that accompany the command: %w", err)
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
	return writeArchive(file, packed)
}
