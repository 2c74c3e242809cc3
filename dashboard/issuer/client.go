package issuer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	requestTimeout = 10 * time.Second
	awayFor        = 5 * time.Second
	maxAnswer      = 1 << 20
	maxHeader      = 64 << 10
	maxConnections = 16
)

var (
	errAway     = errors.New("the issuer has just not answered, and is asked again in five seconds")
	errInsecure = errors.New("the issuer names an address without https")
)

// newClient returns a client for an issuer, which may have a certificate of the authorities in ca.
func newClient(ca []byte) (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(ca) > 0 && !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("no certificate in PEM form found")
	}
	return &http.Client{
		Timeout: requestTimeout,
		Transport: &bounded{next: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: maxHeader, MaxConnsPerHost: maxConnections, ForceAttemptHTTP2: true,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// bounded bounds answers, and asks an issuer that has not answered not again at once.
type bounded struct {
	next http.RoundTripper
	away atomic.Int64 // until when, in nanoseconds
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme != "https":
		return nil, errInsecure
	case time.Now().UnixNano() < b.away.Load():
		return nil, errAway
	}
	response, err := b.next.RoundTrip(r)
	if err != nil {
		b.failed(r.Context())
		return nil, err
	}
	response.Body = &body{io.LimitReader(response.Body, maxAnswer), response.Body, func() { b.failed(r.Context()) }}
	return response, nil
}

// failed notes that there was no answer, unless the one who asked has left.
func (b *bounded) failed(ctx context.Context) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		b.away.Store(time.Now().Add(awayFor).UnixNano())
	}
}

// body is a body of bounded length, which tells when it does not come.
type body struct {
	io.Reader
	io.Closer

	failed func()
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed()
	}
	return n, err
}
