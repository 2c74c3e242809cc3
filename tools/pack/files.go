package pack

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// File is one entry of a layer.
type File struct {
	Path   string // in the image
	Source string // on the host; empty for a directory or a link
	Link   string // target of a symbolic link
	Mode   int64  // 0 means 0755
	UID    int
}

// Files writes a tar file that depends only on the files: without times and user names.
func Files(target string, files []File) (err error) {
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return Write(out, files)
}

// Write is Files for any writer.
func Write(out io.Writer, files []File) error {
	archive := tar.NewWriter(out)
	made := map[string]bool{".": true, "/": true}
	for _, file := range files {
		if err := addParents(archive, made, file.Path); err != nil {
			return err
		}
		if err := add(archive, file); err != nil {
			return fmt.Errorf("add %s: %w", file.Path, err)
		}
		made[path.Clean(file.Path)] = true
	}
	return archive.Close()
}

func addParents(archive *tar.Writer, made map[string]bool, name string) error {
	parent := path.Dir(path.Clean(name))
	if made[parent] {
		return nil
	}
	if err := addParents(archive, made, parent); err != nil {
		return err
	}
	made[parent] = true
	return add(archive, File{Path: parent})
}

func add(archive *tar.Writer, file File) error {
	header := &tar.Header{
		Name: strings.TrimPrefix(path.Clean(file.Path), "/"), Mode: 0o755, Uid: file.UID, Gid: file.UID, Format: tar.FormatPAX,
	}
	if file.Mode != 0 {
		header.Mode = file.Mode
	}
	switch {
	case file.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, file.Link
		return archive.WriteHeader(header)
	case file.Source == "":
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return archive.WriteHeader(header)
	}
	content, err := os.Open(file.Source)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}
