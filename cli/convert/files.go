package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rouse-run/rouse/cli/exit"
)

const (
	// MaxInput bounds the bytes that are read from all files together.
	MaxInput = 64 << 20
	// Input is the path that denotes standard input.
	Input = "-"

	// inputFile is the file that standard input is written to with --output.
	inputFile = "manifests.yaml"
)

// File is a file of manifests.
type File struct {
	Path    string
	Content []byte
}

// Name returns the name of the file for messages.
func (f File) Name() string {
	if f.Path == Input {
		return "the input"
	}
	return f.Path
}

// readAll reads files, the files in folders, and standard input.
func readAll(in io.Reader, paths []string) ([]File, error) {
	var files []File
	left := MaxInput
	for _, path := range paths {
		expanded, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, path := range expanded {
			file := File{Path: path}
			if file.Content, err = read(in, path, left); err != nil {
				return nil, fmt.Errorf("read %s: %w", file.Name(), err)
			}
			left -= len(file.Content)
			files = append(files, file)
		}
	}
	return files, nil
}

// filesOf returns the manifests in a folder, or the file itself.
func filesOf(path string) ([]string, error) {
	if path == Input {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			found = append(found, filepath.Join(path, entry.Name()))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("folder %s contains no .yaml, .yml or .json file", path)
	}
	return found, nil
}

func read(in io.Reader, path string, limit int) ([]byte, error) {
	if path != Input {
		file, err := os.Open(path) //nolint:gosec // the user names it
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err == nil && len(content) > limit {
		err = fmt.Errorf("the files are larger than %d MiB together: convert them in parts", MaxInput>>20)
	}
	return content, err
}

// writeOutput writes all files as one stream of documents.
func writeOutput(out io.Writer, files []File) error {
	var all []byte
	for _, file := range files {
		if len(file.Content) > 0 {
			all = Append(all, file.Content)
		}
	}
	if _, err := out.Write(all); err != nil {
		return fmt.Errorf("write the manifests: %w", err)
	}
	return nil
}

// writeFolder writes each file under its base name. It writes nothing when two files have the same name, or one exists.
func writeFolder(folder string, files []File) error {
	paths := make([]string, len(files))
	for i, file := range files {
		name := inputFile
		if file.Path != Input {
			name = filepath.Base(file.Path)
		}
		paths[i] = filepath.Join(folder, name)
		if twin := slices.Index(paths[:i], paths[i]); twin >= 0 {
			return exit.Errorf(exit.Usage, "%s and %s would both become %s: convert one at a time", files[twin].Path, file.Path, paths[i])
		}
		if _, err := os.Lstat(paths[i]); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists; nothing was written: take another --output", paths[i])
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // manifests are readable, as the folders that mkdir makes
		return exit.Errorf(exit.Usage, "create the folder of --output: %w", err)
	}
	for i, path := range paths {
		if err := writeNew(path, files[i].Content); err != nil {
			return err
		}
	}
	return nil
}

// writeNew writes a file, and fails when it exists.
func writeNew(path string, content []byte) error {
	created, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // manifests are readable, and the user names the folder
	if err != nil {
		return fmt.Errorf("write a manifest: %w", err)
	}
	_, err = created.Write(content)
	if err := errors.Join(err, created.Close()); err != nil {
		return fmt.Errorf("write a manifest: %w", err)
	}
	return nil
}
