package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/rouse-run/rouse/internal/dialguard"
)

const (
	dialTimeout = 5 * time.Second
	idleTimeout = 30 * time.Second
	maxHeader   = 64 << 10
)

// TransportOptions say how registries are reached.
type TransportOptions struct {
	// Insecure are the hosts, with their ports, that speak plain HTTP.
	Insecure []string
	// CA has PEM certificates that are trusted besides those of the system.
	CA []byte
	// ResponseTimeout bounds the wait for the first byte of an answer.
	ResponseTimeout time.Duration
	// Guard bounds which addresses are dialled, nil where the process may reach all that its user may.
	Guard *dialguard.Guard
	// MaxAnswer bounds how much of an answer is read; 0: all of it.
	MaxAnswer int64

	proxy func(*http.Request) (*url.URL, error) // nil for that of the environment
}

var errPlainHTTP = errors.New("the registry is not marked as insecure, so plain HTTP is not used")

// NewTransport speaks plain HTTP with the insecure hosts and TLS with all others, whatever their names look
// like.
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

// trust is nil, the system's certificates, where there are no others.
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

// RoundTrip decides on the scheme: the library above guesses it from the host's name.
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

// CloseIdleConnections ends the connections that are not in use.
func (s *schemes) CloseIdleConnections() { s.inner.CloseIdleConnections() }
