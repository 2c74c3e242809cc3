package jwt

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/fair"
)

const (
	fetchTimeout = 5 * time.Second
	maxBody      = 1 << 20
	// smallBody is what an answer may have without a slot. Most key sets have a tenth of it.
	smallBody  = 64 << 10
	largeSlots = 16 // of which a namespace has no more than it leaves free
	maxHeader  = 16 << 10
	maxHops    = 3
)

// These are the words for failures. An answer's own, an address and a URI are not in them: tenants read them.
var (
	errSlow        = errors.New("the server did not answer in time: it has 5 seconds")
	errName        = errors.New("the host's name is not known")
	errCertificate = errors.New("the server's certificate is not trusted")
	errConnection  = errors.New("the connection failed")
	errRedirect    = errors.New("the server redirects to another host, or too often: write the URI that it redirects to")
	errLarge       = errors.New("the answer is larger than 1 MiB")
	errCrowded     = errors.New("the answer is larger than 64 KiB, and other large ones were read for all of its 5 seconds: make it smaller")
)

// answer is what a fetch brought.
type answer struct {
	keys   *keySet
	maxAge time.Duration
}

// fetcher asks URIs that tenants have named.
type fetcher struct {
	client  *http.Client
	timeout time.Duration
	large   *fair.Pool // slots to read an answer that is not small, by namespace
}

func newFetcher(guard dialguard.Guard, roots *x509.CertPool, proxy func(*http.Request) (*url.URL, error)) *fetcher {
	transport := guard.Transport(&http.Transport{
		Proxy:                  proxy,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true, // the next time is in minutes
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}, fetchTimeout)
	return &fetcher{
		client:  &http.Client{Transport: transport, CheckRedirect: sameHost},
		timeout: fetchTimeout,
		large:   fair.NewPool(fair.Limits{Total: largeSlots, Waiting: 2 * maxURIs}), // in which all of a namespace's find a place
	}
}

// sameHost allows redirects within a host.
func sameHost(request *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxHops || request.URL.Scheme != first.Scheme || request.URL.Host != first.Host {
		return errRedirect
	}
	return nil
}

// fetch asks a URI for its keys, for the namespaces whose rules name it.
func (f *fetcher) fetch(ctx context.Context, uri string, namespaces []string) (answer, error) {
	if err := checkURI(uri); err != nil {
		return answer{}, fmt.Errorf("it is %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return answer{}, fmt.Errorf("it is %w", errURI)
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return answer{}, explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode != http.StatusOK:
		return answer{}, fmt.Errorf("the server answered %d", response.StatusCode)
	case response.ContentLength > maxBody:
		return answer{}, errLarge
	}
	keys, err := f.read(ctx, response.Body, namespaces)
	if err != nil {
		return answer{}, err
	}
	return answer{keys: keys, maxAge: maxAgeOf(response.Header)}, nil
}

// read waits for a slot where an answer is not small, so that many of them cannot fill the memory, nor hold small ones up.
func (f *fetcher) read(ctx context.Context, from io.Reader, namespaces []string) (*keySet, error) {
	body, err := io.ReadAll(io.LimitReader(from, smallBody+1))
	if err != nil {
		return nil, explain(err)
	}
	if len(body) <= smallBody {
		return parseKeySet(body)
	}
	namespace := f.leastBusy(namespaces)
	if err := f.large.Acquire(ctx.Done(), namespace, 1); err != nil {
		return nil, errCrowded
	}
	defer f.large.Release(namespace, 1)
	rest, err := io.ReadAll(io.LimitReader(from, maxBody+1-int64(len(body))))
	if err != nil {
		return nil, explain(err)
	}
	if body = append(body, rest...); len(body) > maxBody {
		return nil, errLarge
	}
	return parseKeySet(body)
}

// leastBusy is the namespace that pays for an answer, so that one that names a URI of another's costs the other one nothing.
func (f *fetcher) leastBusy(namespaces []string) string {
	if len(namespaces) == 0 {
		return ""
	}
	return slices.MinFunc(namespaces, func(a, b string) int { return cmp.Compare(f.large.Held(a), f.large.Held(b)) })
}

func explain(err error) error {
	var (
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
		timeout     net.Error
	)
	switch {
	case errors.Is(err, dialguard.ErrDenied):
		return dialguard.ErrDenied
	case errors.Is(err, errRedirect):
		return errRedirect
	case errors.As(err, &timeout) && timeout.Timeout():
		return errSlow
	case errors.As(err, &name):
		return errName
	case errors.As(err, &certificate):
		return errCertificate
	}
	return errConnection
}
