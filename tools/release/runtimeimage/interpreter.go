package runtimeimage

import (
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// unpack writes the files of a base of this machine's platform to a directory, and returns a program that runs its interpreter here,
// with the libraries of the base: code caches and bytecode have to be made by what will read them.
func unpack(ctx context.Context, base v1.Image, described Description, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	files := mutate.Extract(base)
	defer func() { _ = files.Close() }()
	if err := untar(ctx, files, dir); err != nil {
		return "", err
	}
	for _, place := range described.Interpreter {
		interpreter := filepath.Join(dir, place)
		if _, err := os.Stat(interpreter); err == nil {
			return runnable(dir, interpreter, described.Home)
		}
	}
	return "", fmt.Errorf("it has none of %v", described.Interpreter)
}

func untar(ctx context.Context, files io.Reader, dir string) error {
	tar := exec.CommandContext(ctx, "tar", "-x", "-C", dir, "--no-same-owner", "--exclude=dev/*", "--exclude=./dev/*")
	tar.Stdin = files
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	// What tar leaves of the end of the stream.
	_, err := io.Copy(io.Discard, files)
	return err
}

// runnable is the interpreter, where it needs nothing, or a script that starts it by the loader of its own system.
func runnable(root, interpreter, home string) (string, error) {
	binary, err := elf.Open(interpreter)
	if err != nil {
		return "", fmt.Errorf("read the interpreter: %w", err)
	}
	defer func() { _ = binary.Close() }()
	if binary.Section(".interp") == nil {
		return interpreter, nil
	}
	loader, err := firstOf(root, "lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1")
	if err != nil {
		return "", fmt.Errorf("find the loader of glibc: %w", err)
	}
	var libraries []string
	for _, place := range []string{"usr/local/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"} {
		libraries = append(libraries, filepath.Join(root, place))
	}
	script := "#!/bin/sh\n"
	if home != "" {
		script += fmt.Sprintf("export %s=%q\n", home, filepath.Dir(filepath.Dir(interpreter)))
	}
	script += fmt.Sprintf("exec %q --library-path %q %q \"$@\"\n", loader, strings.Join(libraries, ":"), interpreter)
	wrapper := root + ".interpreter"
	return wrapper, os.WriteFile(wrapper, []byte(script), 0o755)
}

func firstOf(root string, places ...string) (string, error) {
	for _, place := range places {
		if _, err := os.Stat(filepath.Join(root, place)); err == nil {
			return filepath.Join(root, place), nil
		}
	}
	return "", fmt.Errorf("it has none of %v", places)
}
