package runtimes

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed nodejs/layer.sh nodejs/build.js nodejs/bundling.js nodejs/packages.js nodejs/warm.js nodejs/server.js
//go:embed nodejs/package.json nodejs/package-lock.json
//go:embed nodejs/lib/*.js nodejs/lib/parts/*.js nodejs/sdk/*.js nodejs/sdk/package.json
var nodejs embed.FS

//go:embed python/layer.sh python/main.py python/sdk.py python/requirements.txt
//go:embed python/function_server/*.py python/function_server/tracing/*.py
var python embed.FS

//go:embed golang/layer.sh golang/function/*.go golang/function/crash/*.go
var golang embed.FS

// Files are the sources of one runtime's server, with layer.sh at their root.
type Files struct{ tree fs.FS }

// Of returns the files of a language's server, by the language's folder.
func Of(language string) (Files, error) {
	for _, tree := range []fs.FS{nodejs, python, golang} {
		if _, err := fs.Stat(tree, language); err == nil {
			sub, err := fs.Sub(tree, language)
			return Files{tree: sub}, err
		}
	}
	return Files{}, fmt.Errorf("there is no server for %s", language)
}

// Hash returns a hash of the files' names and contents.
func (f Files) Hash() (string, error) {
	hash := sha256.New()
	err := f.each(func(name string, content []byte) error {
		_, err := fmt.Fprintf(hash, "%s\x00%d\x00%s", name, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash the runtime's files: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// Write writes the files into a directory.
func (f Files) Write(dir string) error {
	return f.each(func(name string, content []byte) error {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return fmt.Errorf("write the runtime's files: %w", err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return fmt.Errorf("write the runtime's files: %w", err)
		}
		return nil
	})
}

func (f Files) each(handle func(name string, content []byte) error) error {
	return fs.WalkDir(f.tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(f.tree, name)
		if err != nil {
			return err
		}
		return handle(name, content)
	})
}
