package builder

import (
	"archive/tar"
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// layer is an image layer in a compressed file.
type layer struct {
	file      string
	mediaType types.MediaType
	digest    v1.Hash
	diffID    v1.Hash
	size      int64
}

var _ v1.Layer = layer{}

// Digest implements v1.Layer.
func (l layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID implements v1.Layer.
func (l layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Size implements v1.Layer.
func (l layer) Size() (int64, error) { return l.size, nil }

// MediaType implements v1.Layer. It matches the image that the layer is added to.
func (l layer) MediaType() (types.MediaType, error) { return l.mediaType, nil }

// Compressed implements v1.Layer.
func (l layer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

// Uncompressed implements v1.Layer. An upload does not need it.
func (l layer) Uncompressed() (io.ReadCloser, error) {
	return nil, errors.New("read the layer: only its compressed content is available")
}

// maxEntries bounds the number of files, above that of any Function.
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
	// The fastest level, because unpacking dominates a pull.
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

// root returns the prefix of names in a layer.
func root(place string) string { return strings.TrimPrefix(place, "/") }

// copyTar rewrites an archive, entry by entry.
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
		return fmt.Errorf("finish the layer: %w", err)
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

// broken returns an error that distinguishes a sender that ended from one that sends something else.
func broken(err error) error {
	if errors.Is(err, tar.ErrHeader) {
		return fail(language.InstallFailed, "what the container that installs sent is no layer; a package of the Function may have disturbed it")
	}
	return errNotHandedOver
}

// cleanHeader keeps the name, the kind, the size and the executable bit. Times are dropped, so that the layer is reproducible, and root owns
// everything, so that a handler cannot modify its own code even on a writable file system.
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
		return fmt.Errorf("finish the layer: %w", err)
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

// meter counts the bytes that are written through it.
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

// leftOut returns the paths, below the Function's directory, of files that differ between runs of a package manager or may hold
// credentials. No runtime reads them.
func leftOut() map[string]bool {
	names := map[string]bool{".git": true}
	for _, each := range languages.All() {
		names[each.Packages.Settings] = true
		for _, name := range each.Packages.Unstable {
			names[name] = true
		}
	}
	return names
}

// entry is a file of the layer.
type entry struct {
	name string // below the Function's directory; empty for itself
	file string
	info fs.FileInfo
}

// list returns the files of dir, sorted by name.
func list(dir string) ([]entry, error) {
	var entries []entry
	leftOut := leftOut()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(file, dir), "/")
		if leftOut[name] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.IsDir() || info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0 {
			entries = append(entries, entry{name: name, file: file, info: info})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the Function's directory: %w", err)
	}
	return entries, nil
}

// checkSize returns an error that names the largest packages when the files exceed maxSize.
func checkSize(entries []entry, maxSize int64) error {
	if maxSize <= 0 {
		return nil
	}
	var total int64
	parts := map[string]int64{}
	for _, e := range entries {
		if e.info.Mode().IsRegular() {
			total += e.info.Size()
			parts[part(e.name)] += e.info.Size()
		}
	}
	if total <= maxSize {
		return nil
	}
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(parts[b], parts[a]), strings.Compare(a, b)) })
	largest := make([]string, 0, 3)
	for _, name := range names[:min(3, len(names))] {
		largest = append(largest, fmt.Sprintf("%s %s", name, megabytes(parts[name])))
	}
	return fail(language.ImageTooLarge, "source and dependencies take %s, and %s are allowed; the largest are %s; depend on less",
		megabytes(total), megabytes(maxSize), strings.Join(largest, ", "))
}

// part returns the package that a file belongs to.
func part(name string) string {
	elements := strings.Split(name, "/")
	depth := 1
	if slices.ContainsFunc(languages.All(), func(l *language.Language) bool { return l.Packages.Dir == elements[0] }) {
		depth = 2
		if len(elements) > 2 && strings.HasPrefix(elements[1], "@") { // a scope of packages
			depth = 3
		}
	}
	return strings.Join(elements[:min(depth, len(elements))], "/")
}

func megabytes(bytes int64) string {
	if bytes < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d MiB", (bytes+1<<19)>>20)
}

// withLayer adds the layer to the base and keeps the base's configuration, because the runtime determines how it is run. The layer's media
// type is of the base's family, because not every containerd accepts a mixture.
func withLayer(base v1.Image, added layer) (v1.Image, error) {
	family, err := base.MediaType()
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the base: %w", err)
	}
	added.mediaType = types.DockerLayer
	if family == types.OCIManifestSchema1 {
		added.mediaType = types.OCILayer
	}
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: added, MediaType: added.mediaType,
		History: v1.History{Created: v1.Time{Time: time.Unix(0, 0).UTC()}, CreatedBy: "rouse builder"},
	})
	if err != nil {
		return nil, fmt.Errorf("add the layer to the base: %w", err)
	}
	return image, nil
}
