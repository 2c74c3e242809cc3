package loopback

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// Host is the address of all reserved ports.
const Host = "127.0.0.1"

// mostTries bounds the search for adjacent ports.
const mostTries = 100

// Reserve returns a port that refuses connections until the caller listens on it, and again afterwards. A bound socket
// that does not listen reserves it until the test ends; SO_REUSEADDR, which Go's listeners set as well, lets the caller
// bind it too.
func Reserve(t testing.TB) int {
	t.Helper()
	port, err := bind(t, 0)
	require.NoError(t, err)
	return port
}

// ReserveRow reserves adjacent ports and returns the first.
func ReserveRow(t testing.TB, length int) int {
	t.Helper()
	for range mostTries {
		first := Reserve(t)
		next := first + 1
		for next < first+length {
			if _, err := bind(t, next); err != nil {
				break
			}
			next++
		}
		if next == first+length {
			return first
		}
	}
	require.FailNow(t, "no adjacent ports are free")
	return 0
}

// bind reserves a port, 0 for any, until the test ends.
func bind(t testing.TB, port int) (int, error) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	require.NoError(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte(net.ParseIP(Host).To4())})
	if err != nil {
		return 0, err
	}
	address, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	inet, ok := address.(*syscall.SockaddrInet4)
	require.True(t, ok)
	return inet.Port, nil
}

// Address returns a reserved port as host:port.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort(Host, strconv.Itoa(Reserve(t)))
}

// Request is a recorded request.
type Request struct {
	Method, Host, URI, Remote string
	Header                    http.Header
	Body                      []byte
}

// ID returns the id of the event.
func (r Request) ID() string { return r.Header.Get("Ce-Id") }

// Sink is a server that records the events it receives.
type Sink struct {
	handler http.Handler
	address string

	mu       sync.Mutex
	server   *http.Server
	requests []Request
	arrived  chan struct{} // closed and replaced at each request
}

// StartSink runs a sink until the test ends.
func StartSink(t testing.TB, handler http.HandlerFunc) *Sink {
	t.Helper()
	s := ReserveSink(t, handler)
	s.Restart(t)
	return s
}

// ReserveSink returns a sink whose address refuses connections until Restart is called. A nil handler responds with
// 204.
func ReserveSink(t testing.TB, handler http.HandlerFunc) *Sink {
	t.Helper()
	if handler == nil {
		handler = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	}
	s := &Sink{handler: handler, address: Address(t), arrived: make(chan struct{})}
	t.Cleanup(s.Stop)
	return s
}

// Address returns host:port. It is the same after Stop and Restart.
func (s *Sink) Address() string { return s.address }

// Stop closes all connections and refuses new ones.
func (s *Sink) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		_ = s.server.Close()
		s.server = nil
	}
}

// Restart listens again on the same address.
func (s *Sink) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	listener, err := new(net.ListenConfig).Listen(context.WithoutCancel(t.Context()), "tcp", s.address)
	require.NoError(t, err)
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve)}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.server)
}

func (s *Sink) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the received part is recorded
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.requests = append(s.requests, Request{
		Method: r.Method, Host: r.Host, URI: r.RequestURI, Remote: r.RemoteAddr, Header: r.Header.Clone(), Body: body,
	})
	close(s.arrived)
	s.arrived = make(chan struct{})
	s.mu.Unlock()
	s.handler.ServeHTTP(w, r)
}

// Requests returns all requests so far, in order.
func (s *Sink) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Await waits for n requests and returns all.
func (s *Sink) Await(t testing.TB, n int) []Request {
	t.Helper()
	for {
		s.mu.Lock()
		requests, arrived := append([]Request(nil), s.requests...), s.arrived
		s.mu.Unlock()
		if len(requests) >= n {
			return requests
		}
		select {
		case <-arrived:
		case <-t.Context().Done():
			require.FailNow(t, "the test ended before enough requests came")
		}
	}
}

// Deliveries returns the number of requests of each event id.
func (s *Sink) Deliveries() map[string]int {
	counts := map[string]int{}
	for _, request := range s.Requests() {
		counts[request.ID()]++
	}
	return counts
}

// Pair is a self-signed certificate in PEM with its key.
type Pair struct{ Certificate, Key []byte }

// Make makes a certificate for the names, valid until a time; the zero time: for an hour.
func Make(t testing.TB, until time.Time, names ...string) Pair {
	t.Helper()
	if until.IsZero() {
		until = time.Now().Add(time.Hour)
	}
	pair, err := sign(&x509.Certificate{
		DNSNames: names, NotBefore: until.Add(-24 * time.Hour), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, nil)
	require.NoError(t, err)
	return pair
}

// MakeClient makes a client's certificate with a common name, signed by an issuer, nil: by itself. It is valid for an hour. TestMain may
// call it, too.
func MakeClient(name string, issuer *Pair) (Pair, error) {
	now := time.Now()
	return sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, issuer)
}

// sign makes a certificate of a template, which can sign others.
func sign(template *x509.Certificate, issuer *Pair) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return Pair{}, err
	}
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	parent, by := template, any(key)
	if issuer != nil {
		signing, err := tls.X509KeyPair(issuer.Certificate, issuer.Key)
		if err != nil {
			return Pair{}, err
		}
		parent, by = signing.Leaf, signing.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		return Pair{}, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}, err
}

// Server returns a server configuration with the certificate, which includes HTTP/2.
func (p Pair) Server(t testing.TB) *tls.Config {
	t.Helper()
	certificate, err := tls.X509KeyPair(p.Certificate, p.Key)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

// Roots returns a pool of the certificates.
func Roots(t testing.TB, pairs ...Pair) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, pair := range pairs {
		require.True(t, pool.AppendCertsFromPEM(pair.Certificate))
	}
	return pool
}

// Default is http.DefaultClient with a transport of its own.
var Default = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()} //nolint:forbidigo // it is the one that replaces it

// Endpoints is a watch whose endpoints the test sets.
type Endpoints struct {
	mu      sync.Mutex
	current []routing.Endpoint
	changed chan struct{} // closed and replaced at each Set
}

// NewEndpoints returns Endpoints with an initial value.
func NewEndpoints(endpoints ...routing.Endpoint) *Endpoints {
	return &Endpoints{current: endpoints, changed: make(chan struct{})}
}

// Ready returns an endpoint that passes its readiness probe.
func Ready(address string) routing.Endpoint { return routing.Endpoint{Address: address, Ready: true} }

// StartingSink returns an endpoint of a Function that was just scheduled.
func StartingSink(address string) routing.Endpoint {
	return routing.Endpoint{Address: address, Function: true}
}

// Set replaces all endpoints.
func (e *Endpoints) Set(endpoints ...routing.Endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current = endpoints
	close(e.changed)
	e.changed = make(chan struct{})
}

// Watch calls apply at once and after each Set until ctx ends.
func (e *Endpoints) Watch(
	ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint),
) error {
	for {
		e.mu.Lock()
		current, changed := e.current, e.changed
		e.mu.Unlock()
		apply(current)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
