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

	"github.com/rouse-run/rouse/runtimes/language"
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

// Uncompressed is not needed for an upload.
func (l layer) Uncompressed() (io.ReadCloser, error) {
	return nil, errors.New("the layer is only kept compressed")
}

// maxEntries is more files than any Function has.
const maxEntries = 1 << 20

// readLayer packs what Install sends, files that are at place in the image, into file. It writes each entry's header
// itself, so that the layer holds nothing but directories, files and links below place, whatever the sender sends.
func readLayer(in io.Reader, place, file string, maxSize int64) (layer, error) {
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
	if err := copyTar(buffered, in, root(place), maxSize); err != nil {
		return layer{}, err
	}
	if err := errors.Join(buffered.Flush(), compressed.Close(), out.Close()); err != nil {
		return layer{}, fmt.Errorf("write the layer: %w", err)
	}
	return layer{file: file, digest: sum(packed.hash), diffID: sum(content), size: packed.size}, nil
}

// root is how names in a layer begin.
func root(place string) string { return strings.TrimPrefix(place, "/") }

// copyTar writes an archive again, entry by entry.
func copyTar(out io.Writer, in io.Reader, root string, maxSize int64) error {
	from, to := tar.NewReader(in), tar.NewWriter(out)
	var total int64
	for entries := 0; ; entries++ {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return broken(err)
		}
		total += header.Size
		if maxSize > 0 && total > maxSize || entries >= maxEntries {
			return fail(language.ImageTooLarge, "source and dependencies take more than the %s or the %d files that are allowed; depend on less",
				megabytes(maxSize), maxEntries)
		}
		if err := copyEntry(to, from, header, root); err != nil {
			return err
		}
	}
	rest, err := io.ReadAll(io.LimitReader(in, int64(len(handoverEnd))+1))
	if err != nil || string(rest) != handoverEnd {
		return errNotHandedOver
	}
	if err := to.Close(); err != nil {
		return fmt.Errorf("end the layer: %w", err)
	}
	return nil
}

func copyEntry(to *tar.Writer, from io.Reader, header *tar.Header, root string) error {
	clean, err := cleanHeader(header, root)
	if err != nil {
		return err
	}
	if err := to.WriteHeader(clean); err != nil {
		return fmt.Errorf("pack the layer: %w", err)
	}
	if _, err := io.CopyN(to, from, clean.Size); err != nil {
		return broken(err)
	}
	return nil
}

// broken distinguishes a sender that has ended from one that sends something else.
func broken(err error) error {
	if errors.Is(err, tar.ErrHeader) {
		return fail(language.InstallFailed, "what the container that installs sent is no layer; a package of the Function may have disturbed it")
	}
	return errNotHandedOver
}

// cleanHeader keeps the name, the kind, the size and the right to execute. There are no times, and root owns everything,
// so that the layer depends on nothing else and a handler cannot change its own code even where the file system may be
// written to.
func cleanHeader(header *tar.Header, root string) (*tar.Header, error) {
	name := path.Clean(header.Name)
	if name != root && !strings.HasPrefix(name, root+"/") {
		return nil, fail(language.InstallFailed, "the layer has a file outside of the Function's directory /%s", root)
	}
	clean := &tar.Header{Typeflag: header.Typeflag, Name: name, Mode: 0o644, ModTime: time.Unix(0, 0)}
	if header.Mode&0o111 != 0 {
		clean.Mode = 0o755
	}
	switch header.Typeflag {
	case tar.TypeDir:
		clean.Name += "/"
	case tar.TypeReg:
		clean.Size = header.Size
	case tar.TypeSymlink:
		clean.Linkname, clean.Mode = header.Linkname, 0o777
	default:
		return nil, fail(language.InstallFailed, "the layer has something that is neither a file nor a directory nor a link")
	}
	return clean, nil
}

func writeTar(out io.Writer, place string, entries []entry) error {
	archive := tar.NewWriter(out)
	for _, e := range entries {
		if err := add(archive, path.Join(root(place), e.name), e); err != nil {
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
