package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

const (
	tarName    = "layer.tar"
	digestName = "digest"
)

// Layer is an uncompressed tar file in the cache.
type Layer struct {
	path   string
	digest v1.Hash
	size   int64
}

var _ v1.Layer = Layer{}

// Digest and DiffID are the same, since the layer is not compressed.
func (l Layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the digest of the content.
func (l Layer) DiffID() (v1.Hash, error) { return l.digest, nil }

// Compressed is the content as it is.
func (l Layer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Uncompressed is the content as it is.
func (l Layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Size of the content.
func (l Layer) Size() (int64, error) { return l.size, nil }

// MediaType says that the layer is not compressed.
func (l Layer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// File is the tar file.
func (l Layer) File() string { return l.path }

// Store keeps layers in the cache.
type Store struct{ Cache state.Cache }

// Layer returns the layer of this name and key, and lets write make its tar file when it is not in the cache.
func (s Store) Layer(name, key string, write func(file string) error) (Layer, error) {
	dir, _, err := s.Cache.Entry("layers", name, key, func(temporary string) error {
		if err := os.MkdirAll(temporary, 0o755); err != nil {
			return err
		}
		file := filepath.Join(temporary, tarName)
		if err := write(file); err != nil {
			return err
		}
		digest, err := state.SumFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(temporary, digestName), []byte(digest), 0o644)
	})
	if err != nil {
		return Layer{}, fmt.Errorf("make the layer %s: %w", name, err)
	}
	return open(dir)
}

func open(dir string) (Layer, error) {
	digest, err := os.ReadFile(filepath.Join(dir, digestName))
	if err != nil {
		return Layer{}, err
	}
	info, err := os.Stat(filepath.Join(dir, tarName))
	if err != nil {
		return Layer{}, err
	}
	return Layer{path: filepath.Join(dir, tarName), digest: v1.Hash{Algorithm: "sha256", Hex: string(digest)}, size: info.Size()}, nil
}

// File is one entry of a layer.
type File struct {
	Path   string // in the image
	Source string // on the host; empty for a directory or a link
	Link   string // target of a symbolic link
	Mode   int64  // 0: 0755
	UID    int
}

// Files writes a tar file that depends on nothing but the files: no times, no names of users.
func Files(target string, files []File) (err error) {
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
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
