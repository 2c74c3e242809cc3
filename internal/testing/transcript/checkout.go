package transcript

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Checkout copies the files of a repository into a new folder, as a clone would have them: without what is hidden,
// installed or built.
func Checkout(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("copy the repository: %w", err)
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return fmt.Errorf("copy the repository: %w", err)
		}
		target := filepath.Join(to, name)
		switch {
		case entry.IsDir() && path != from && made(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type().IsRegular():
			return duplicate(path, target)
		}
		return nil
	})
}

// made reports whether a folder is not of the repository itself.
func made(name string) bool {
	return strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin" || name == "__pycache__"
}

func duplicate(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("copy a file: %w", err)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy a file: %w", err)
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

// Environment is that of this process, with a state folder of the page's own and without what would make it differ: the
// cluster of the user who runs the test, and settings of the test itself.
func Environment(state string) []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "XDG_STATE_HOME", "KUBECONFIG", "MAKEFLAGS", "MAKELEVEL", "MFLAGS":
		default:
			env = append(env, variable)
		}
	}
	return append(env, "XDG_STATE_HOME="+state)
}
