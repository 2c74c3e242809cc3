package registrytest

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/output"
)

// Option configures the registry before it starts.
type Option func(*settings)

// WithUser makes the registry require a user and a password.
func WithUser(name, password string) Option {
	return func(s *settings) { s.user, s.password = name, password }
}

// WithTLS gives the registry a certificate of the authority Registry.CA.
func WithTLS() Option {
	return func(s *settings) { s.tls = true }
}

// WithSpace gives the store a file system of the given size. The test is skipped where its user may not mount one.
func WithSpace(bytes int64) Option {
	return func(s *settings) { s.space = bytes }
}

// Request is a request that the registry has handled.
type Request struct {
	Method string
	URI    string
	Status int
}

// Registry is a registry of a test.
type Registry struct {
	// Host is the registry's host:port.
	Host string
	// CA is the PEM certificate of a registry started with WithTLS.
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
	r.front.Config.ErrorLog = log.New(io.Discard, "", 0) // tests of certificates reject them
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

// Directory returns the directory of the registry's store.
func (r *Registry) Directory() string { return r.running.store }

// Intercept sets a handler that is tried before the registry. It returns whether it handled the request.
func (r *Registry) Intercept(answer func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = answer
}

// Requests returns the requests since the last call.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := r.requests
	r.requests = nil
	return requests
}

// Traffic counts blobs and manifests.
type Traffic struct {
	Uploaded, Mounted, Manifests, Pulled int
}

// Count sums up the requests: blobs that were uploaded, mounted from another repository or read, and manifests that
// were written.
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

// statusRecorder records a request before its response is sent.
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

// Unwrap allows the proxy to flush.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const startTimeout = 30 * time.Second

// settings become the registry's configuration.
type settings struct {
	user, password string
	tls            bool
	space          int64
}

// process is the registry itself, behind the recording proxy.
type process struct {
	address string
	store   string
	output  output.Buffer
	command *exec.Cmd
	ended   chan struct{}
}

func startProcess(t testing.TB, s settings) *process {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	require.NotEmpty(t, assets, `run "make test" or set KUBEBUILDER_ASSETS`)
	binary, err := exec.LookPath(filepath.Join(assets, "registry"))
	require.NoError(t, err, `run "make test", or "go run -C e2e/cluster . assets" once more`)

	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	require.NoError(t, os.Mkdir(store, 0o755))
	config := filepath.Join(dir, "config.yml")
	p := &process{address: loopback.Address(t), store: store, ended: make(chan struct{})}
	require.NoError(t, os.WriteFile(config, []byte(configuration(t, dir, store, p.address, s)), 0o600))

	line := guard([]string{binary, "serve", config})
	if s.space > 0 {
		line = guard(confine(store, s.space, []string{binary, "serve", config}))
	}
	p.command = exec.CommandContext(context.WithoutCancel(t.Context()), line[0], line[1:]...)
	p.command.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	require.NoError(t, p.command.Start())
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.stop)
	p.awaitAnswer(t)
	return p
}

func (p *process) stop() {
	_ = p.command.Process.Kill()
	<-p.ended
}

func (p *process) awaitAnswer(t testing.TB) {
	t.Helper()
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+"/", nil)
		require.NoError(t, err)
		if response, err := client.Do(request); err == nil {
			require.NoError(t, response.Body.Close())
			return
		}
		select {
		case <-p.ended:
			require.FailNow(t, "the registry ended at its start", p.output.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	require.FailNow(t, "the registry does not start", p.output.String())
}

func configuration(t testing.TB, dir, store, address string, s settings) string {
	t.Helper()
	text := fmt.Sprintf(`version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %s}
  delete: {enabled: true}
http:
  addr: %s
  relativeurls: true
  secret: only-for-tests
`, strconv.Quote(store), address)
	if s.user == "" {
		return text
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(s.password), bcrypt.MinCost)
	require.NoError(t, err)
	users := filepath.Join(dir, "users")
	require.NoError(t, os.WriteFile(users, []byte(s.user+":"+string(hash)+"\n"), 0o600))
	return text + fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}\n", strconv.Quote(users))
}

// guard makes the kernel kill the registry when the test process ends, even after a panic.
func guard(line []string) []string {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return line
	}
	return append([]string{setpriv, "--pdeathsig", "KILL", "--"}, line...)
}

// confine gives the store a file system of its own of the given size.
func confine(store string, space int64, line []string) []string {
	script := fmt.Sprintf(`mount -t tmpfs -o size=%d none "$0" && exec "$@"`, space)
	unshare := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	return append(append(unshare, "--", "sh", "-c", script, store), line...)
}

// canConfine reports whether this user may mount a file system.
func canConfine(ctx context.Context, dir string) bool {
	line := confine(dir, 1<<20, []string{"true"})
	return exec.CommandContext(ctx, line[0], line[1:]...).Run() == nil
}
