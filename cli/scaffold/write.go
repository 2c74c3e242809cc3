package scaffold

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrExists means that a file or folder is there already. Nothing was changed.
var ErrExists = errors.New("it is there already; nothing was written")

// Write makes the folder and its files. The folder must not be there, so that nothing is overwritten. What was begun and
// cannot be finished is removed.
func Write(folder string, files []File) (err error) {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil { //nolint:gosec // a project's folders are readable, as those that mkdir makes
		return fmt.Errorf("make the folder of %s: %w", folder, err)
	}
	if err := os.Mkdir(folder, 0o755); errors.Is(err, os.ErrExist) { //nolint:gosec // as above
		return fmt.Errorf("%s: %w", folder, ErrExists)
	} else if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	for _, file := range files {
		path := filepath.Join(folder, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as above
			return fmt.Errorf("make a folder: %w", err)
		}
		if err := os.WriteFile(path, file.Content, 0o644); err != nil { //nolint:gosec // a project's files are readable
			return fmt.Errorf("write a file: %w", err)
		}
	}
	return nil
}
