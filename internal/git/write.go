package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// contents lists the objects of the files below a tree, each once.
func contents(tree *object.Tree) ([]plumbing.Hash, error) {
	walker := object.NewTreeWalker(tree, true, nil)
	defer walker.Close()
	var hashes []plumbing.Hash
	known := map[plumbing.Hash]bool{}
	for {
		_, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			return hashes, nil
		}
		if err != nil {
			return nil, err
		}
		if isContent(entry.Mode) && !known[entry.Hash] {
			known[entry.Hash] = true
			hashes = append(hashes, entry.Hash)
		}
	}
}

func isContent(mode filemode.FileMode) bool { return mode.IsFile() }

// write puts the files below a tree into a directory. os.Root keeps everything within it, whatever names and
// links the tree has.
func write(tree *object.Tree, into string) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return fmt.Errorf("write the source: %w", err)
	}
	defer func() { _ = root.Close() }()
	walker := object.NewTreeWalker(tree, true, nil)
	defer walker.Close()
	var links []string
	for {
		name, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			return checkLinks(root, links)
		}
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		if err := writeEntry(root, tree, name, entry); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if entry.Mode == filemode.Symlink {
			links = append(links, name)
		}
	}
}

// checkLinks follows every link once all are there: each may stay within the directory, and one through another
// lead out of it. One that leads nowhere does no harm.
func checkLinks(root *os.Root, links []string) error {
	for _, name := range links {
		_, err := root.Stat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ELOOP) && !errors.Is(err, syscall.ENOTDIR) {
			return leadsOut(name, err)
		}
	}
	return nil
}

func leadsOut(name string, err error) error {
	return &Error{Kind: DirectoryNotFound, err: err, Message: fmt.Sprintf(
		"the link %s leads out of spec.source.gitRepository.baseDir. Replace it by a copy", name)}
}

func writeEntry(root *os.Root, tree *object.Tree, name string, entry object.TreeEntry) error {
	switch {
	case entry.Mode == filemode.Dir:
		return root.MkdirAll(name, 0o755)
	case !isContent(entry.Mode):
		return nil // a submodule
	}
	file, err := tree.TreeEntryFile(&entry)
	if err != nil {
		return err
	}
	if entry.Mode == filemode.Symlink {
		return writeLink(root, name, file)
	}
	mode := os.FileMode(0o644)
	if entry.Mode == filemode.Executable {
		mode = 0o755
	}
	content, err := file.Reader()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	written, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(written, content)
	return errors.Join(err, written.Close())
}

// writeLink keeps a link that stays within the directory and refuses any other.
func writeLink(root *os.Root, name string, file *object.File) error {
	target, err := file.Contents()
	if err != nil {
		return err
	}
	if !filepath.IsLocal(filepath.Join(filepath.Dir(name), target)) || filepath.IsAbs(target) {
		return leadsOut(name, nil)
	}
	return root.Symlink(target, name)
}
