package builder

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// layer is a file with the compressed layer.
type layer struct {
	file      string
	mediaType types.MediaType
	digest    v1.Hash
	diffID    v1.Hash
	size      int64
}

var _ v1.Layer = layer{}

// Digest of the compressed content.
func (l layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the digest of the content.
func (l layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Size of the compressed content.
func (l layer) Size() (int64, error) { return l.size, nil }

// MediaType fits the image that the layer is for.
func (l layer) MediaType() (types.MediaType, error) { return l.mediaType, nil }

// Compressed is what is uploaded.
func (l layer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

// Uncompressed is not needed by anybody who uploads.
func (l layer) Uncompressed() (io.ReadCloser, error) {
	return nil, errors.New("the layer is only kept compressed")
}

// writeLayer packs dir, which is at place in the image, into file.
//
// The content depends on nothing but names, bytes and the right to execute: no times, and root owns everything,
// so that a handler cannot change its own code even where the file system may be written to.
func writeLayer(dir, place, file string, maxSize int64) (layer, error) {
	entries, err := list(dir)
	if err != nil {
		return layer{}, err
	}
	if err := checkSize(entries, maxSize); err != nil {
		return layer{}, err
	}
	out, err := os.Create(file) //nolint:gosec // in the build's own directory
	if err != nil {
		return layer{}, fmt.Errorf("create the layer: %w", err)
	}
	defer func() { _ = out.Close() }()
	packed, content := newMeter(out), sha256.New()
	// The fastest level: what a pull takes is mostly unpacking.
	compressed, err := gzip.NewWriterLevel(packed, gzip.BestSpeed)
	if err != nil {
		return layer{}, fmt.Errorf("compress the layer: %w", err)
	}
	buffered := bufio.NewWriterSize(io.MultiWriter(content, compressed), 256<<10)
	if err := writeTar(buffered, strings.TrimPrefix(place, "/"), entries); err != nil {
		return layer{}, err
	}
	if err := errors.Join(buffered.Flush(), compressed.Close(), out.Close()); err != nil {
		return layer{}, fmt.Errorf("write the layer: %w", err)
	}
	return layer{file: file, digest: sum(packed.hash), diffID: sum(content), size: packed.size}, nil
}

func writeTar(out io.Writer, root string, entries []entry) error {
	archive := tar.NewWriter(out)
	for _, e := range entries {
		if err := add(archive, path.Join(root, e.name), e); err != nil {
			return fmt.Errorf("pack %s: %w", e.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("end the layer: %w", err)
	}
	return nil
}

func add(archive *tar.Writer, name string, e entry) error {
	header := &tar.Header{Name: name, Mode: 0o644, ModTime: time.Unix(0, 0)}
	if e.info.Mode()&0o111 != 0 {
		header.Mode = 0o755
	}
	switch {
	case e.info.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return archive.WriteHeader(header)
	case e.info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(e.file)
		if err != nil {
			return err
		}
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, target, 0o777
		return archive.WriteHeader(header)
	}
	content, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	header.Typeflag, header.Size = tar.TypeReg, e.info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// meter sums up what goes through it.
type meter struct {
	to   io.Writer
	hash hash.Hash
	size int64
}

func newMeter(to io.Writer) *meter { return &meter{to: to, hash: sha256.New()} }

func (m *meter) Write(text []byte) (int, error) {
	n, err := m.to.Write(text)
	m.hash.Write(text[:n])
	m.size += int64(n)
	return n, err
}

func sum(of hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(of.Sum(nil))}
}
