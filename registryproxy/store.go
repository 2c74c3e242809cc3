package registryproxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/flags"
)

// StoreOptions are the options of a Store.
type StoreOptions struct {
	// Directory is the registry's rootdirectory.
	Directory string
	// Interval is the interval between sweeps.
	Interval time.Duration
	// Keep is the retention time of blobs and manifests that no image and no request refers to. It is at least shortestKeep, because a build
	// names a layer some time before the image that contains it.
	Keep time.Duration
}

const shortestKeep = 5 * time.Second

// DefaultStoreOptions returns the options of a registry whose directory is not swept.
func DefaultStoreOptions() StoreOptions { return StoreOptions{Interval: time.Hour, Keep: time.Hour} }

// Flags implements flags.Options.
func (o *StoreOptions) Flags(fs *flags.Set) {
	fs.String(&o.Directory, "store", "rootdirectory of the registry, in which what no image has is removed; empty: nothing is")
	fs.Duration(&o.Interval, "sweep-interval", "how often that is done").Between(time.Second, 24*time.Hour)
	fs.Duration(&o.Keep, "sweep-keep", "for how long something stays that no image has and no request names").AtLeast(0)
}

// Store is the directory of a registry. It is safe for concurrent use.
type Store struct {
	options StoreOptions
	root    string
	metrics *storeMetrics
	log     logr.Logger

	removing sync.Mutex // held for the last check and the removal of a file, and while a file is marked as used
	most     int        // bounds the blobs in a part of a sweep
}

type storeMetrics struct{ blobs, bytes, failures prometheus.Counter }

// NewStore returns a Store that is not swept until Start.
func NewStore(options StoreOptions, registry prometheus.Registerer, log logr.Logger) *Store {
	m := &storeMetrics{
		blobs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rouse_registry_swept_blobs_total", Help: "Blobs that were removed from the registry's volume because no image has them.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rouse_registry_swept_bytes_total", Help: "Bytes that were freed on the registry's volume.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rouse_registry_sweep_failures_total", Help: "Times that the registry's volume could not be swept.",
		}),
	}
	registry.MustRegister(m.blobs, m.bytes, m.failures)
	options.Keep = max(options.Keep, shortestKeep)
	return &Store{most: mostBlobs, options: options, root: filepath.Join(options.Directory, "docker", "registry", "v2"), metrics: m, log: log}
}

// Start sweeps at the interval until ctx ends. A failed sweep is retried at the next.
func (s *Store) Start(ctx context.Context) error {
	ticker := time.NewTicker(s.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.metrics.failures.Inc()
			s.log.Error(err, "the registry's volume is not swept")
		}
	}
}

var digestForm = regexp.MustCompile(`^(sha256|sha512):([0-9a-f]{64,128})$`)

// Use marks a blob that a request names as used, before the registry gets the request.
func (s *Store) Use(digest string) {
	path := s.blob(digest)
	if path == "" {
		return
	}
	s.removing.Lock()
	defer s.removing.Unlock()
	now := time.Now()
	_ = os.Chtimes(path, now, now) // a missing blob is uploaded
}

// blob returns the file of a digest, empty for an invalid one.
func (s *Store) blob(digest string) string {
	parts := digestForm.FindStringSubmatch(digest)
	if parts == nil {
		return ""
	}
	return filepath.Join(s.root, "blobs", parts[1], parts[2][:2], parts[2], "data")
}

// unused reports whether a file was neither written nor named within the retention time.
func (s *Store) unused(path string, now time.Time) (size int64, unused bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false, err
	}
	return info.Size(), now.Sub(info.ModTime()) >= s.options.Keep, nil
}

// Note marks everything that a request names as used, before the registry gets it: in its path, its query, and the manifest in its body.
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

// storedManifest is the body of a manifest on its way to the registry. What it names is marked as used before the registry reads it.
type storedManifest struct {
	io.ReadCloser
	store *Store
	left  int64 // negative when the length is unknown
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
