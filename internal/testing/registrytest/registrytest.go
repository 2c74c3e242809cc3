package registrytest

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Option changes the registry before it starts.
type Option func(*settings)

// WithUser lets only one user in.
func WithUser(name, password string) Option {
	return func(s *settings) { s.user, s.password = name, password }
}

// WithTLS gives the registry a certificate that only Registry.CA vouches for.
func WithTLS() Option {
	return func(s *settings) { s.tls = true }
}

// WithSpace gives the store a file system with so many bytes. The test is skipped where the user of the
// test may not mount one.
func WithSpace(bytes int64) Option {
	return func(s *settings) { s.space = bytes }
}

// Request is one that the registry has answered.
type Request struct {
	Method string
	URI    string
	Status int
}

// Registry is one registry of a test.
type Registry struct {
	// Host is where it answers, host:port.
	Host string
	// CA is the PEM certificate of a registry that was started WithTLS.
	CA []byte

	front   *httptest.Server
	running *process

	mu        sync.Mutex
	requests  []Request
	intercept func(http.ResponseWriter, *http.Request) bool
}

// Start runs an empty registry until the test ends.
func Start(t testing.TB, options ...Option) *Registry {
	t.Helper()
	var s settings
	for _, option := range options {
		option(&s)
	}
	if s.space > 0 && !canConfine(t.Context(), t.TempDir()) {
		t.Skip("this user may not mount a file system")
	}
	running := startProcess(t, s)
	r := &Registry{running: running}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: running.address})
	transport := &http.Transport{}
	proxy.Transport = transport
	r.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		uri := request.URL.RequestURI()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		recorder.record = func(status int) { r.note(Request{Method: request.Method, URI: uri, Status: status}) }
		if !r.intercepted(recorder, request) {
			proxy.ServeHTTP(recorder, request)
		}
	}))
	r.front.Config.ErrorLog = log.New(io.Discard, "", 0) // tests of certificates refuse them
	if s.tls {
		r.front.StartTLS()
		r.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.front.Certificate().Raw})
	} else {
		r.front.Start()
	}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(r.front.Close)
	r.Host = r.front.Listener.Addr().String()
	return r
}

// Directory is where the registry keeps what it has.
func (r *Registry) Directory() string { return r.running.store }

// Intercept has answer reply instead of the registry to the requests that it returns true for.
func (r *Registry) Intercept(answer func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = answer
}

// Requests are all that were answered since the last call.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := r.requests
	r.requests = nil
	return requests
}

// Traffic is what requests moved.
type Traffic struct {
	Uploaded, Mounted, Manifests, Pulled int
}

// Count sums up what the requests moved: blobs that were uploaded, mounted from another repository or read,
// and manifests that were written.
func Count(requests []Request) Traffic {
	var sum Traffic
	for _, request := range requests {
		path, query, _ := strings.Cut(request.URI, "?")
		blob, created := strings.Contains(path, "/blobs/"), request.Status == http.StatusCreated
		switch request.Method {
		case http.MethodPut:
			sum.Uploaded += count(blob && created)
			sum.Manifests += count(!blob && created)
		case http.MethodPost:
			sum.Mounted += count(created && strings.Contains(query, "mount="))
		case http.MethodGet:
			sum.Pulled += count(blob)
		}
	}
	return sum
}

func count(happened bool) int {
	if happened {
		return 1
	}
	return 0
}

func (r *Registry) note(request Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request)
}

func (r *Registry) intercepted(w http.ResponseWriter, request *http.Request) bool {
	r.mu.Lock()
	intercept := r.intercept
	r.mu.Unlock()
	return intercept != nil && intercept(w, request)
}

// statusRecorder records a request before its answer is sent.
type statusRecorder struct {
	http.ResponseWriter
	record func(status int)
	status int
	once   sync.Once
}

func (w *statusRecorder) WriteHeader(status int) {
	w.once.Do(func() { w.record(status) })
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusRecorder) Write(text []byte) (int, error) {
	w.once.Do(func() { w.record(w.status) })
	return w.ResponseWriter.Write(text)
}

// Unwrap lets the proxy flush.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
