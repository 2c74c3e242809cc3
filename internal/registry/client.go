package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/rouse-run/rouse/internal/dialguard"
)

const (
	callTimeout     = 20 * time.Second
	responseTimeout = 10 * time.Second
	// maxAnswer bounds the bytes that are read of a response: the longest is a page of names.
	maxAnswer = 4 << 20
	// maxNames bounds the total of a list of many pages.
	maxNames = 1 << 20
)

// Client is a client of one registry. It is safe for concurrent use and need not be closed.
type Client struct {
	at      Registry
	host    name.Registry
	prefix  string
	options []remote.Option
	puller  *remote.Puller
	pusher  *remote.Pusher
}

// New makes no request. It returns an error when the address or the CA bundle is not valid.
func New(at Registry) (*Client, error) {
	host, prefix, err := at.split()
	if err != nil {
		return nil, err
	}
	if at.Guard != nil {
		if err := at.Guard.CheckLiteral((&url.URL{Host: host.Name()}).Hostname()); err != nil {
			return nil, fmt.Errorf("the registry's address %q: %w", at.Host, Explain(err))
		}
	}
	options := TransportOptions{CA: at.CA, ResponseTimeout: responseTimeout, Guard: at.Guard, MaxAnswer: maxAnswer}
	if at.Insecure {
		options.Insecure = []string{host.Name()}
	}
	transport, err := NewTransport(options)
	if err != nil {
		return nil, err
	}
	c := &Client{at: at, host: host, prefix: prefix, options: []remote.Option{
		remote.WithTransport(transport), remote.WithAuth(at.authenticator()),
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 2}),
	}}
	if c.puller, err = remote.NewPuller(c.options...); err != nil {
		return nil, fmt.Errorf("set up the client of registry %s: %w", at, err)
	}
	if c.pusher, err = remote.NewPusher(c.options...); err != nil {
		return nil, fmt.Errorf("set up the client of registry %s: %w", at, err)
	}
	return c, nil
}

// Digest returns the digest that a tag refers to, or the digest itself if the image exists. A missing image is not an
// error.
func (c *Client) Digest(ctx context.Context, repository, identifier string) (digest string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	at, err := c.at.Repository(repository)
	if err != nil {
		return "", false, fmt.Errorf("name the repository: %w", err)
	}
	var reference name.Reference = at.Tag(identifier)
	if strings.Contains(identifier, ":") {
		reference = at.Digest(identifier)
	}
	descriptor, err := c.puller.Head(ctx, reference)
	switch {
	case isNotFound(err):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("look for %s in %s of registry %s: %w", identifier, repository, c.at, Explain(err))
	}
	return descriptor.Digest.String(), true, nil
}

// Repositories lists the repositories below the registry's path. Not every registry supports this.
func (c *Client) Repositories(ctx context.Context) ([]string, error) {
	catalogue, err := inTime(ctx, func(ctx context.Context) (*remote.Catalogger, error) { return c.puller.Catalogger(ctx, c.host) })
	if err != nil {
		return nil, fmt.Errorf("list the repositories of registry %s: %w", c.at, Explain(err))
	}
	names, err := names(ctx, catalogue, func(page *remote.Catalogs) []string { return page.Repos })
	if err != nil {
		return nil, fmt.Errorf("list the repositories of registry %s: %w", c.at, Explain(err))
	}
	repositories := make([]string, 0, len(names))
	for _, repository := range names {
		if rest, ok := strings.CutPrefix(repository, c.prefix); ok {
			repositories = append(repositories, rest)
		}
	}
	return repositories, nil
}

// Tags lists the tags of a repository. The list is empty for a repository without tags.
func (c *Client) Tags(ctx context.Context, repository string) ([]string, error) {
	at, err := c.at.Repository(repository)
	if err != nil {
		return nil, fmt.Errorf("name the repository: %w", err)
	}
	list, err := inTime(ctx, func(ctx context.Context) (*remote.Lister, error) { return c.puller.Lister(ctx, at) })
	if isNotFound(err) {
		return nil, nil
	}
	var tags []string
	if err == nil {
		tags, err = names(ctx, list, func(page *remote.Tags) []string { return page.Tags })
	}
	if err != nil {
		return nil, fmt.Errorf("list the tags of %s in registry %s: %w", repository, c.at, Explain(err))
	}
	return tags, nil
}

// names reads all pages of a list.
func names[P any](ctx context.Context, list interface {
	HasNext() bool
	Next(ctx context.Context) (P, error)
}, of func(P) []string,
) (found []string, err error) {
	for list.HasNext() {
		page, err := inTime(ctx, list.Next)
		if err != nil {
			return nil, err
		}
		if found = append(found, of(page)...); len(found) > maxNames {
			return nil, fmt.Errorf("there are more than %d", maxNames)
		}
	}
	return found, nil
}

// inTime limits the time of the request for one page.
func inTime[P any](ctx context.Context, request func(context.Context) (P, error)) (P, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return request(ctx)
}

// DeleteTag deletes a tag. A missing tag is not an error. The image itself is deleted when the registry's store is
// garbage collected.
func (c *Client) DeleteTag(ctx context.Context, repository, tag string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	at, err := c.at.Repository(repository)
	if err != nil {
		return fmt.Errorf("name the repository: %w", err)
	}
	if err := c.pusher.Delete(ctx, at.Tag(tag)); err != nil && !isNotFound(err) {
		return fmt.Errorf("delete %s:%s from registry %s: %w", repository, tag, c.at, Explain(err))
	}
	return nil
}

var errTooLong = errors.New("its answer is too long")

// answer is the body of a response, limited to left bytes.
type answer struct {
	io.ReadCloser

	left int64
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, errTooLong
	}
	n, err := a.ReadCloser.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}

const (
	dialTimeout = 5 * time.Second
	idleTimeout = 30 * time.Second
	maxHeader   = 64 << 10
)

// TransportOptions configure the connections to registries.
type TransportOptions struct {
	// Insecure are the hosts, with their ports, that use plain HTTP.
	Insecure []string
	// CA holds PEM certificates that are trusted in addition to those of the system.
	CA []byte
	// ResponseTimeout bounds the wait for the first byte of a response.
	ResponseTimeout time.Duration
	// Guard limits the addresses that may be dialled, nil if the process may reach everything that its user may.
	Guard *dialguard.Guard
	// MaxAnswer bounds the bytes that are read of a response; 0: unlimited.
	MaxAnswer int64

	proxy func(*http.Request) (*url.URL, error) // nil: the environment's proxy
}

var errPlainHTTP = errors.New("the registry is not marked as insecure, so plain HTTP is not used")

// NewTransport returns a transport that uses plain HTTP for the insecure hosts and TLS for all others, regardless of
// their names.
func NewTransport(o TransportOptions) (http.RoundTripper, error) {
	roots, err := trust(o.CA)
	if err != nil {
		return nil, err
	}
	insecure := make(map[string]bool, len(o.Insecure))
	for _, host := range o.Insecure {
		insecure[host] = true
	}
	settings := &http.Transport{
		Proxy:                  o.proxy,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  o.ResponseTimeout,
		MaxResponseHeaderBytes: maxHeader,
		ExpectContinueTimeout:  time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        idleTimeout,
	}
	if o.proxy == nil {
		settings.Proxy = http.ProxyFromEnvironment
	}
	s := &schemes{insecure: insecure, maxAnswer: o.MaxAnswer, inner: settings}
	if o.Guard != nil {
		s.inner = o.Guard.Transport(settings, dialTimeout)
	}
	return s, nil
}

// trust returns the certificate pool, nil for the system's.
func trust(ca []byte) (*x509.CertPool, error) {
	if len(ca) == 0 {
		return nil, nil //nolint:nilnil // what tls.Config takes for the system's roots
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's CA certificates: %w", err)
	}
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA bundle has no certificate in PEM form")
	}
	return pool, nil
}

type schemes struct {
	insecure  map[string]bool
	maxAnswer int64
	inner     interface {
		http.RoundTripper
		CloseIdleConnections()
	}
}

// RoundTrip decides the scheme, which the library derives from the host's name.
func (s *schemes) RoundTrip(request *http.Request) (*http.Response, error) {
	plain := s.insecure[request.URL.Host]
	switch {
	case plain && request.URL.Scheme == "https":
		request = request.Clone(request.Context())
		request.URL.Scheme = "http"
	case !plain && request.URL.Scheme != "https":
		return nil, errPlainHTTP
	}
	response, err := s.inner.RoundTrip(request)
	if err == nil && s.maxAnswer > 0 {
		response.Body = &answer{ReadCloser: response.Body, left: s.maxAnswer}
	}
	return response, err
}

// CloseIdleConnections closes the idle connections.
func (s *schemes) CloseIdleConnections() { s.inner.CloseIdleConnections() }
