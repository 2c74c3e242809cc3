package registryproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"strings"
)

// Note keeps all that a request names, before the registry gets it: in its path, its query, and the manifest that it brings.
func (s *Store) Note(r *http.Request) {
	s.Use(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
	for _, key := range []string{"digest", "mount"} {
		for _, digest := range r.URL.Query()[key] {
			s.Use(digest)
		}
	}
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") && r.Body != nil {
		r.Body = &storedManifest{ReadCloser: r.Body, store: s, left: r.ContentLength, sum: sha256.New()}
	}
}

// storedManifest is one that is on its way to the registry. What it names is kept before the registry reads so far.
type storedManifest struct {
	io.ReadCloser
	store *Store
	left  int64 // negative where the length is not known
	sum   hash.Hash
	tail  []byte // of what was read, as a digest may begin in it
}

// longest is the length of a digest.
const longest = len("sha512:") + 128

// Read implements io.Reader.
func (m *storedManifest) Read(into []byte) (int, error) {
	n, err := m.ReadCloser.Read(into)
	m.sum.Write(into[:n])
	m.tail = append(m.tail, into[:n]...)
	for _, digest := range named.FindAll(m.tail, -1) {
		m.store.Use(string(digest))
	}
	m.tail = append(m.tail[:0], m.tail[max(0, len(m.tail)-longest):]...)
	if m.left -= int64(n); m.left == 0 || err != nil {
		m.store.Use("sha256:" + hex.EncodeToString(m.sum.Sum(nil)))
	}
	return n, err
}
