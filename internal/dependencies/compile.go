package dependencies

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rouse-run/rouse/runtimes/language"
)

// maxSourceFile bounds a file of a source that the language looks into.
const maxSourceFile = 8 << 20

// Compilation says what to compile, where and with what. Of its Request, Dir is the project's folder, with the source in it.
type Compilation struct {
	Request

	// Modules and Objects are folders for what is downloaded and for what is compiled; empty: the machine's own.
	Modules, Objects string
	// Server is the folder with the sources of the runtime's server.
	Server string
	// Binary is the file to write.
	Binary string
}

// Compile makes a binary of a source, and copies what the compiler prints to out. No link of the source leads to a file outside of it.
func Compile(ctx context.Context, c Compilation, out io.Writer) error {
	files, err := c.project()
	if err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(c.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return fmt.Errorf("make a folder to compile in: %w", err)
		}
		_ = os.Remove(file) // it may be a link of the source
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	command := c.Language.Compiled.Build(language.Compilation{
		Program: c.Program, Binary: c.Binary, Settings: c.settings(), Modules: c.Modules, Objects: c.Objects,
	})
	compiled := Run(ctx, Command{
		Dir: filepath.Join(c.Dir, language.MainDir), Env: slices.Concat(c.Env, command.Env), Args: command.Line, Guard: c.Guard,
	}, out)
	if compiled.Err == nil {
		return nil
	}
	return c.failed(compiled, "")
}

// project asks the language for what it adds to the source.
func (c Compilation) project() (map[string]string, error) {
	dir := filepath.Join(c.Dir, language.SourceDir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the source: %w", err)
	}
	defer func() { _ = root.Close() }()
	names, err := namesIn(root)
	if err != nil {
		return nil, err
	}
	files, problem := c.Language.Compiled.Project(language.Project{
		Names: names, Read: func(name string) string { return textIn(root, name) }, Server: c.Server, Manifest: c.Manifest,
	})
	if problem != "" {
		return nil, &Failure{Reason: language.SourceInvalid, Message: problem}
	}
	return files, nil
}

// namesIn lists the files of a source. What a link leads to must lie within it.
func namesIn(root *os.Root) ([]string, error) {
	var names []string
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := root.Stat(name)
		if err != nil {
			return &Failure{
				Reason:  language.SourceInvalid,
				Message: name + " is a link that leads nowhere, or out of the source; put the file itself there",
			}
		}
		if info.Mode().IsRegular() {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

func textIn(root *os.Root, name string) string {
	file, err := root.Open(name)
	if err != nil {
		return "" // what cannot be read is the compiler's to report
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxSourceFile))
	if err != nil {
		return ""
	}
	return string(text)
}
