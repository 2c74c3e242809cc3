package entrance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

const (
	// maxFolders bounds the number of certificates.
	maxFolders = 256
	// maxFile bounds the size of a file.
	maxFile = 256 << 10
)

// certificate is the certificate of a folder.
type certificate struct {
	folder   string
	crt, key []byte // file contents
	pair     tls.Certificate
	leaf     *x509.Certificate
}

// certificates are the certificates in the folders of a directory.
type certificates struct {
	dir     string
	log     logr.Logger
	current atomic.Pointer[table]
	broken  map[string]string // why a folder could not be read, by its name; used only by reload
}

func newCertificates(dir string, log logr.Logger) *certificates {
	c := &certificates{dir: dir, log: log, broken: map[string]string{}}
	c.current.Store(newTable(nil))
	return c
}

func (c *certificates) all() []*certificate { return c.current.Load().all }

// config returns a config that looks up the certificate at each handshake, and asks the client for one where asks says so. Whoever
// answers for the host verifies what it presents, with each request.
func (c *certificates) config(asks func(serverName string) bool) *tls.Config {
	plain := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load().find(hello) },
	}
	if asks == nil {
		return plain
	}
	asking := plain.Clone()
	asking.ClientAuth = tls.RequestClientCert
	plain.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if asks(strings.TrimSuffix(hello.ServerName, ".")) {
			return asking, nil
		}
		return nil, nil //nolint:nilnil // this one stays
	}
	return plain
}

// follow reloads the folders until ctx ends. Kubelet replaces each as a whole.
func (c *certificates) follow(ctx context.Context, pause time.Duration, failures interface{ Inc() }) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.reload(failures)
		}
	}
}

// reload loads valid folders. An invalid folder keeps its previous certificate.
func (c *certificates) reload(failures interface{ Inc() }) {
	folders, err := folders(c.dir)
	if err != nil {
		c.note(c.dir, err, failures)
		return
	}
	delete(c.broken, c.dir)
	before := make(map[string]*certificate, len(folders))
	for _, each := range c.all() {
		before[each.folder] = each
	}
	all, changed := make([]*certificate, 0, len(folders)), false
	seen := make(map[string]struct{}, len(folders))
	for _, folder := range folders {
		seen[folder] = struct{}{}
		old := before[folder]
		each, err := load(c.dir, folder, old)
		if err != nil {
			c.note(folder, err, failures)
			each = old
		} else {
			delete(c.broken, folder)
		}
		if each != nil {
			all = append(all, each)
		}
		if each != old {
			changed = true
			c.log.Info("serving a certificate", "folder", folder, "names", each.leaf.DNSNames, "until", each.leaf.NotAfter)
		}
	}
	for folder := range before {
		if _, stays := seen[folder]; !stays {
			changed = true
			c.log.Info("certificate was removed", "folder", folder)
		}
	}
	c.forget(seen)
	if changed {
		c.current.Store(newTable(all))
	}
}

// note logs an invalid folder once for each reason.
func (c *certificates) note(folder string, err error, failures interface{ Inc() }) {
	if c.broken[folder] == err.Error() {
		return
	}
	c.broken[folder] = err.Error()
	failures.Inc()
	c.log.Error(err, "cannot load a certificate", "folder", folder)
}

func (c *certificates) forget(seen map[string]struct{}) {
	for folder := range c.broken {
		if _, stays := seen[folder]; !stays && folder != c.dir {
			delete(c.broken, folder)
		}
	}
}

// folders returns the folders with certificates, sorted by name. Names of kubelet's own folders begin with two dots.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // there is no Secret
	}
	if err != nil {
		return nil, fmt.Errorf("read the folder of certificates: %w", err)
	}
	var found []string
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() { // in a projected volume it is a link
			continue
		}
		if found = append(found, name); len(found) == maxFolders {
			break
		}
	}
	return found, nil
}

// load returns old when nothing has changed.
func load(dir, folder string, old *certificate) (*certificate, error) {
	crt, err := read(filepath.Join(dir, folder, "tls.crt"))
	if err != nil {
		return nil, err
	}
	key, err := read(filepath.Join(dir, folder, "tls.key"))
	if err != nil {
		return nil, err
	}
	if old != nil && bytes.Equal(crt, old.crt) && bytes.Equal(key, old.key) {
		return old, nil
	}
	pair, err := tls.X509KeyPair(crt, key)
	if err != nil {
		return nil, fmt.Errorf("tls.crt and tls.key are no pair in PEM: %w", err)
	}
	return &certificate{folder: folder, crt: crt, key: key, pair: pair, leaf: pair.Leaf}, nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the folder
	if err != nil {
		return nil, fmt.Errorf("the Secret has no %s: it must be of type kubernetes.io/tls", filepath.Base(path))
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", filepath.Base(path), maxFile)
	}
	return text, nil
}

// table finds certificates by name. It is immutable.
type table struct {
	all   []*certificate // sorted by folder
	names map[string][]*certificate
}

var errNoCertificate = errors.New("there is no certificate")

func newTable(all []*certificate) *table {
	t := &table{all: all, names: map[string][]*certificate{}}
	for _, each := range all {
		for _, name := range each.leaf.DNSNames {
			name = strings.ToLower(strings.TrimSuffix(name, "."))
			t.names[name] = append(t.names[name], each)
		}
	}
	return t
}

// find returns the certificate of the requested name, of a wildcard for its first label, or the first one. Of several
// it returns the one that is valid longest among those that the client supports.
func (t *table) find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	_, parent, _ := strings.Cut(name, ".")
	for _, candidates := range [][]*certificate{t.names[name], t.names["*."+parent]} {
		if found := best(candidates, hello); found != nil {
			return &found.pair, nil
		}
	}
	if len(t.all) == 0 {
		return nil, errNoCertificate
	}
	return &t.all[0].pair, nil
}

func best(candidates []*certificate, hello *tls.ClientHelloInfo) *certificate {
	var found *certificate
	for _, each := range candidates {
		if found != nil && !each.leaf.NotAfter.After(found.leaf.NotAfter) {
			continue
		}
		if len(candidates) == 1 || hello.SupportsCertificate(&each.pair) == nil {
			found = each
		}
	}
	return found
}
