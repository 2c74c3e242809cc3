package function

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	_ "time/tzdata" // the image has no time zones

	"github.com/rouse-run/rouse/runtimes/golang/function/crash"
)

const (
	defaultPort    = "8080"
	defaultTimeout = 180 * time.Second
	// The limit of a body is defaultLimit bytes, or memoryShare of the container's memory if that is less; but at least
	// leastLimit.
	defaultLimit = 100 * mebibyte
	leastLimit   = mebibyte
	memoryShare  = 16
	mebibyte     = 1 << 20
)

// cgroupRoot is the directory of a container's own limits.
const cgroupRoot = "/sys/fs/cgroup"

// config is read once from the environment that the controller gives a Function's container.
type config struct {
	name, namespace, runtime string

	timeout   time.Duration
	bodyLimit int64

	publisher, tokenFile, collector string

	address    string
	ready      int // file descriptor for the port; -1: none
	requestLog bool
}

func fromEnvironment(get func(string) string) config {
	c := config{
		name: get("FUNC_NAME"), namespace: get("SERVICE_NAMESPACE"), runtime: get("FUNC_RUNTIME"),
		timeout:   time.Duration(positive(get("FUNC_TIMEOUT"), defaultTimeout.Seconds()) * float64(time.Second)),
		bodyLimit: int64(positive(get("FUNC_BODY_MB_LIMIT"), bodyLimit(get)/mebibyte) * mebibyte),
		publisher: get("PUBLISHER_PROXY_ADDRESS"), tokenFile: get("PUBLISHER_TOKEN_FILE"), collector: get("TRACE_COLLECTOR_ENDPOINT"),
		ready: -1, requestLog: isOn(get("SERVER_INTERNAL_LOGGER")),
	}
	// FUNC_PORT is a reserved name, so that Functions cannot set it.
	if fd, err := strconv.Atoi(get("FUNC_READY_FD")); err == nil && fd >= 0 && get("FUNC_PORT") == "0" {
		c.ready, c.address = fd, "127.0.0.1:0"
		return c
	}
	host := get("SERVER_HOST")
	if host == "" {
		host = "0.0.0.0"
	}
	c.address = net.JoinHostPort(host, port(get("SERVER_PORT"), get("FUNC_PORT")))
	return c
}

// port returns the first valid port.
func port(texts ...string) string {
	for _, text := range texts {
		if number, err := strconv.ParseUint(text, 10, 16); err == nil {
			return strconv.FormatUint(number, 10)
		}
	}
	return defaultPort
}

func positive(text string, otherwise float64) float64 {
	if value, err := strconv.ParseFloat(text, 64); err == nil && value > 0 && value < 1e9 {
		return value
	}
	return otherwise
}

// bodyLimit returns the limit of a container without a configured one.
func bodyLimit(get func(string) string) float64 {
	cgroup := cgroupRoot
	if folder := get("FUNC_CGROUP"); folder != "" && get("FUNC_PORT") == "0" {
		cgroup = folder
	}
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // version 2, version 1
		text, err := os.ReadFile(filepath.Join(cgroup, file)) //nolint:gosec // the kernel's
		if err != nil {
			continue
		}
		if memory, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			return min(max(float64(memory)/memoryShare, leastLimit), defaultLimit)
		}
	}
	return defaultLimit
}

func isOn(text string) bool { return text != "" && text != "0" && !strings.EqualFold(text, "false") }

var settings = fromEnvironment(os.Getenv)

// Name returns the Function's name.
func Name() string { return settings.name }

// Namespace returns the Function's namespace.
func Namespace() string { return settings.namespace }

// Runtime returns the runtime's name, such as go126.
func Runtime() string { return settings.runtime }

// Timeout returns the timeout of a call. The context of a call ends with it.
func Timeout() time.Duration { return settings.timeout }

const (
	// keepAlive exceeds the time for which clients keep an idle connection, so that clients close it first.
	keepAlive = 2 * time.Minute
	// linger is the time for which requests are still served that a client was sending on a persistent connection.
	linger = time.Second
	// headerTimeout bounds the time for receiving a request's header.
	headerTimeout = 20 * time.Second
)

// Serve runs the Function until a signal ends it. Builds call it after all packages are initialised.
func Serve[H Handler](handler H) {
	os.Exit(serve(adapt(handler)))
}

func serve(handle http.HandlerFunc) int {
	ending := make(chan os.Signal, 2)
	signal.Notify(ending, syscall.SIGTERM, os.Interrupt)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", settings.address)
	if err != nil {
		crash.Report(fmt.Sprintf("cannot listen on %s: %v", settings.address, err))
		return 1
	}
	var worn atomic.Bool
	wornOut := sync.OnceFunc(func() {
		worn.Store(true)
		crash.Report(fmt.Sprintf("%d calls hang: the process ends, to be replaced", mostHanging))
		ending <- syscall.SIGTERM
	})
	d := &dispatcher{handle: handle, metrics: newMetrics(), wornOut: wornOut}
	open := &connections{idle: map[net.Conn]bool{}}
	server := &http.Server{Handler: d, IdleTimeout: keepAlive, ReadHeaderTimeout: headerTimeout, ConnState: open.note}
	crash.Loaded()
	_, _ = fmt.Fprintln(os.Stdout, "listening on", listener.Addr())
	if err := tellPort(listener.Addr()); err != nil {
		crash.Report(err.Error())
		return 1
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		crash.Report(fmt.Sprintf("cannot serve any more: %v", err))
		return 1
	case <-ending:
	}
	go func() {
		<-ending
		os.Exit(1)
	}()
	d.drain(server, listener, open)
	traces.flush()
	if worn.Load() {
		return 1
	}
	return 0
}

// drain accepts no new connections, and closes the open ones after they have been idle for long enough.
func (d *dispatcher) drain(server *http.Server, listener io.Closer, open *connections) {
	d.draining.Store(true)
	_ = listener.Close() // Serve closes it as well
	for end := time.Now().Add(linger); open.any() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	// A hanging call has been responded to: it does not block the shutdown.
	_ = server.Shutdown(context.Background())
	d.upgraded.end(settings.timeout)
}

// tellPort writes the port to the process that started the server.
func tellPort(address net.Addr) error {
	if settings.ready < 0 {
		return nil
	}
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(settings.ready), "FUNC_READY_FD")
	if file == nil {
		return fmt.Errorf("FUNC_READY_FD=%d is not a descriptor", settings.ready)
	}
	_, err = file.WriteString(port + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.New("cannot write to FUNC_READY_FD=" + strconv.Itoa(settings.ready) + ": " + err.Error())
	}
	return nil
}

// connections holds the open connections.
type connections struct {
	mu   sync.Mutex
	idle map[net.Conn]bool
}

func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.idle, conn)
		return
	}
	c.idle[conn] = state == http.StateIdle
}

// any reports whether a client may still send a request on a persistent connection.
func (c *connections) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, idle := range c.idle {
		if idle {
			return true
		}
	}
	return false
}

// call is a request that the handler serves.
type call struct {
	request *http.Request
	event   *Event // nil when the request contains none
	place   place
	start   time.Time
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	found, _ := ctx.Value(callKey{}).(*call)
	return found
}

// mostHanging is the number of calls that may run beyond their timeout before the process is replaced.
const mostHanging = 50

// dispatcher calls the handler.
type dispatcher struct {
	handle   http.HandlerFunc
	metrics  *metrics
	load     load
	draining atomic.Bool
	hanging  atomic.Int64
	upgraded upgradedConnections
	wornOut  func()
}

// ServeHTTP serves the server's own paths, and calls the handler for others.
func (d *dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch r.URL.Path {
		case "/healthz":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("OK")) // the client may have disconnected
			return
		case "/metrics":
			w.Header().Set("Content-Type", metricsType)
			var text strings.Builder
			d.metrics.write(&text)
			_, _ = io.WriteString(w, text.String()) // the client may have disconnected
			return
		case loadPath:
			d.load.answer(w)
			return
		case "/favicon.ico":
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	from := d.load.begin(r.Header)
	defer d.load.end(from)
	d.call(w, r)
}

func (d *dispatcher) call(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := contextOf(r)
	defer cancel()
	made := &call{start: time.Now(), place: beginServer(r.Header)}
	r = r.WithContext(context.WithValue(ctx, callKey{}, made))
	made.request = r
	answer := &answer{to: w, header: http.Header{}, upgraded: &d.upgraded}
	d.run(answer, made)
	answer.awaitClose()
	answer.mu.Lock()
	status, size, err, expired, broken := answer.status, answer.size, answer.err, answer.expired, answer.broken
	answer.mu.Unlock()
	d.metrics.count(r.Method, time.Since(made.start), expired || status >= http.StatusInternalServerError)
	made.endServer(status, err, expired)
	if settings.requestLog {
		logRequest(r, status, size)
	}
	if broken {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
}

// run waits for the handler and its response body, or for their timeout.
func (d *dispatcher) run(w *answer, made *call) {
	if made.request.ContentLength > settings.bodyLimit {
		w.to.Header().Set("Connection", "close")
		http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge)
		return
	}
	made.request.Body = http.MaxBytesReader(w.to, made.request.Body, settings.bodyLimit)
	over := make(chan struct{})
	go func() {
		defer close(over)
		d.handled(w, made)
	}()
	end := time.NewTimer(settings.timeout) // the client may disconnect before: a handler that ignores it still has its time
	defer end.Stop()
	select {
	case <-over:
		return
	case <-end.C:
	}
	if !w.expire() {
		<-over // the handler owns the connection
		return
	}
	fmt.Fprintf(os.Stderr, "%s %s: the handler did not end within %s\n", made.request.Method, made.request.URL.Path, settings.timeout)
	if d.hanging.Add(1) >= mostHanging {
		d.wornOut()
	}
	go func() {
		<-over
		d.hanging.Add(-1)
	}()
}

// eventAhead returns the event of a request as far as emitted events need it before a handler has read it. The handler
// rejects a malformed one.
func eventAhead(r *http.Request) (*Event, error) {
	if mediaType(r.Header.Get("Content-Type")) == structured {
		if _, err := bodyOf(r); err != nil {
			return nil, err
		}
		event, err := fromBody(r)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // see above
		}
		return event, nil
	}
	if r.Header.Get("Ce-Type") == "" || r.Header.Get("Ce-Source") == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	event := &Event{ID: decoded(r.Header.Get("Ce-Id"))}
	if hops := r.Header.Get("Ce-" + extensionHops); hops != "" {
		event.Extensions = map[string]string{extensionHops: hops}
	}
	return event, nil
}

// handled calls the handler, and prevents a panic from ending the process.
func (d *dispatcher) handled(w *answer, made *call) {
	defer func() {
		problem := recover()
		if problem == nil {
			w.end()
			return
		}
		if err, ok := problem.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			w.abort()
			return
		}
		fmt.Fprintf(os.Stderr, "panic: %v\n%s", problem, ownFrames(string(debug.Stack())))
		w.fail(fmt.Errorf("%v", problem))
		if !w.refuse(http.StatusInternalServerError, internalError) {
			w.abort()
		}
	}()
	event, err := eventAhead(made.request)
	if err != nil {
		Fail(w, err)
		return
	}
	made.event = event
	d.handle(w, made.request)
}
