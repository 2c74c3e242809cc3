package git

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/fair"
)

const dialTimeout = 10 * time.Second

// Options configure a Client.
type Options struct {
	// CA holds PEM certificates that are trusted in addition to those of the system.
	CA []byte
	// Guard decides which addresses repositories may have. Its zero value denies those of this machine.
	Guard dialguard.Guard
}

// Client reads remote repositories. It is safe for concurrent use.
type Client struct {
	options Options
	http    transport.Transport
	// unlocking has one unit, held while a key is decrypted.
	unlocking *fair.Pool
}

// New returns an error when the CA contains no certificate. Repositories over HTTP are accessed through the proxy of
// the environment, if it names one.
func New(options Options) (*Client, error) { return newClient(options, http.ProxyFromEnvironment) }

func newClient(options Options, proxy func(*http.Request) (*url.URL, error)) (*Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(options.CA) > 0 && !roots.AppendCertsFromPEM(options.CA) {
		return nil, errors.New("read the CA bundle: no certificate in PEM form found")
	}
	c := &Client{options: options, unlocking: fair.NewPool(fair.Limits{Total: 1, Waiting: math.MaxInt64})}
	guarded := options.Guard.Transport(&http.Transport{
		Proxy:                  proxy,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  time.Minute,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        time.Second, // requests to repositories are infrequent
		ForceAttemptHTTP2:      true,
	}, dialTimeout)
	c.http = githttp.NewClient(&http.Client{Transport: &bounded{inner: guarded}})
	return c, nil
}

// uploads is the part of the upload-pack protocol that the client uses.
type uploads interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// session is an open repository whose references have been read.
type session struct {
	uploads

	advertised *packp.AdvRefs // contains only the first reference
	wanted     *selection
}

// open connects and reads the references, of which it keeps only the requested ones. The session ends with ctx.
func (c *Client) open(ctx context.Context, repository Repository, references ...string) (*session, error) {
	endpoint, err := repository.endpoint(c.options.Guard)
	if err != nil {
		return nil, err
	}
	wanted := newSelection(references)
	opened, err := c.connect(context.WithValue(ctx, selecting{}, wanted), endpoint, repository)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the cause of the closed connection
		}
		return nil, explain(err, repository)
	}
	opened.wanted = wanted
	return opened, nil
}

// selecting is the context key for the selection from a list of references, since go-git offers no way to pass it.
type selecting struct{}

func selectionOf(ctx context.Context) *selection {
	if wanted, ok := ctx.Value(selecting{}).(*selection); ok {
		return wanted
	}
	return newSelection(nil)
}

func (c *Client) connect(ctx context.Context, endpoint *transport.Endpoint, repository Repository) (*session, error) {
	opened, err := c.uploadsOf(ctx, endpoint, repository)
	if err != nil {
		return nil, err
	}
	advertised, err := opened.AdvertisedReferencesContext(ctx)
	if err != nil {
		_ = opened.Close() // the session has failed already
		return nil, err
	}
	return &session{uploads: opened, advertised: advertised}, nil
}

func (c *Client) uploadsOf(ctx context.Context, endpoint *transport.Endpoint, repository Repository) (uploads, error) {
	if endpoint.Protocol == "ssh" {
		opened, err := c.openSSH(ctx, endpoint, repository)
		if err != nil {
			return nil, err
		}
		return opened, nil
	}
	credentials := repository.Credentials
	if credentials.key != nil {
		return nil, &Error{Kind: Authentication, Message: "an SSH key does not open " + endpoint.Protocol + " URLs. " +
			"Use an ssh URL in spec.source.gitRepository.url, or auth.type basic"}
	}
	var auth transport.AuthMethod
	if !credentials.IsZero() {
		auth = &githttp.BasicAuth{Username: credentials.username, Password: credentials.password}
	}
	return c.http.NewUploadPackSession(endpoint, auth)
}

// Repository is a remote repository with its credentials.
type Repository struct {
	// URL is https://, http://, ssh:// or user@host:path.
	URL         string
	Credentials Credentials
	// Owner is the namespace of the request. Limits are shared by owner.
	Owner string
}

func (r Repository) endpoint(guard dialguard.Guard) (*transport.Endpoint, error) {
	refuse := func(why string) error {
		return &Error{Kind: InvalidURL, Message: "the URL " + r.redacted() + " " + why +
			". Use https://, http://, ssh:// or git@host:path in spec.source.gitRepository.url"}
	}
	endpoint, err := transport.NewEndpoint(strings.TrimSpace(r.URL))
	if err != nil {
		return nil, refuse("cannot be parsed")
	}
	switch endpoint.Protocol {
	case "http", "https", "ssh":
	default:
		return nil, refuse("is not of a supported form")
	}
	if endpoint.Host == "" {
		return nil, refuse("names no host")
	}
	if err := guard.CheckLiteral(strings.Trim(endpoint.Host, "[]")); err != nil {
		return nil, explain(err, r)
	}
	return endpoint, nil
}

// host returns the host for messages.
func (r Repository) host() string {
	if endpoint, err := transport.NewEndpoint(r.URL); err == nil && endpoint.Host != "" {
		return endpoint.Host
	}
	return r.redacted()
}

// redacted returns the URL without its password.
func (r Repository) redacted() string {
	endpoint, err := transport.NewEndpoint(r.URL)
	if err != nil || endpoint.Password == "" {
		return r.URL
	}
	endpoint.Password = "xxxxx" // like url.Redacted
	return endpoint.String()
}

const (
	// maxAdvertised limits the bytes of a repository's list of references, about half a million of them. Tenants choose
	// the server.
	maxAdvertised = 32 << 20
	// complaintSize limits the bytes of a server's error message that are read.
	complaintSize = 2 << 10
	// maxHeader limits the size of response headers.
	maxHeader = 64 << 10
	// maxMessage limits the message of an Error to fit a condition.
	maxMessage = 1 << 10
)

// beginning keeps the first bytes that are written to it. Its zero value is empty.
type beginning struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer and never fails.
func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p[:min(len(p), complaintSize-b.text.Len())])
	return len(p), nil
}

// String returns the text on one line.
func (b *beginning) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(strings.Fields(b.text.String()), " ")
}

// shortened returns a message of at most maxMessage bytes.
func shortened(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "..."
}

// bounded limits the data that go-git holds in memory: error texts and references. Packs are written to disk.
type bounded struct {
	inner http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.inner.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	all := response.Body
	switch {
	case response.StatusCode >= http.StatusMultipleChoices:
		response.Body = body{Reader: io.LimitReader(all, complaintSize), close: all.Close}
	case strings.HasSuffix(request.URL.Path, "/info/refs"):
		response.Body = body{Reader: newListing(all, selectionOf(request.Context())), close: all.Close}
	}
	return response, nil
}

type body struct {
	io.Reader

	close func() error
}

// Close implements io.Closer.
func (b body) Close() error { return b.close() }
