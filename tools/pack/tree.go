package pack

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Tree lists the files below a directory as entries of a layer, owned by root, in a fixed order.
func Tree(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		file := File{Path: "/" + name, Mode: int64(info.Mode().Perm())}
		switch {
		case entry.IsDir():
		case info.Mode()&fs.ModeSymlink != 0:
			if file.Link, err = os.Readlink(path); err != nil {
				return err
			}
		default:
			file.Source = path
		}
		files = append(files, file)
		return nil
	})
	return files, err
}

// Dir writes the files below a directory to a tar file, as Files does.
func Dir(target, root string) error {
	files, err := Tree(root)
	if err != nil {
		return err
	}
	return Files(target, files)
}
