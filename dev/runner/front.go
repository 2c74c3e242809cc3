package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/workload"
)

const (
	loopbackHost = "127.0.0.1"
	lastPort     = 65535
	// headersWithin bounds how long a client may take to send its headers.
	headersWithin = 30 * time.Second
	// answersWithin bounds how long requests in flight may take when a port is closed.
	answersWithin = 200 * time.Millisecond
)

// front is the HTTP port of a Function on this machine. It does not depend on the replicas.
type front struct {
	listener net.Listener
	server   *http.Server
}

func (f *front) url() string { return "http://" + f.listener.Addr().String() }

// close closes the port. Requests in flight have no replica any more, so that they fail at once or are cut off.
func (f *front) close() {
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	if f.server.Shutdown(ctx) != nil {
		_ = f.server.Close()
	}
}

// serve opens the port of a new Function, and closes the port of a deleted one.
func (f *Functions) serve(u *unit) {
	switch {
	case u.removed && u.front != nil:
		f.running.Go(u.front.close)
		u.front = nil
		return
	case u.removed || u.front != nil:
		return
	}
	listener, err := f.listen(u)
	if err != nil {
		before := u.frontless
		if u.frontless = fmt.Sprintf("it has no port for HTTP requests: %s", err); u.frontless != before {
			f.logProblem(u, u.frontless)
		}
		return
	}
	u.frontless = ""
	name := u.name
	opened := &front{listener: listener, server: &http.Server{
		Handler:           f.handler(name),
		ReadHeaderTimeout: headersWithin,
		ErrorLog:          log.New(io.Discard, "", 0), // errors of clients that disconnected
	}}
	u.front = opened
	f.running.Go(func() {
		if err := opened.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			f.deps.Log.Error(err, "cannot serve a front port", "namespace", name.Namespace, "function", name.Name)
		}
	})
	f.announce()
}

// listen listens on the port that a Function had before, or else on the next free port that is assigned to no other, and assigns it.
func (f *Functions) listen(u *unit) (net.Listener, error) {
	before, had := f.ports.of(u.name)
	if had {
		if listener, err := listenOn(before); err == nil {
			return listener, nil
		}
	}
	listener, err := f.listenOnFree()
	if err != nil {
		return nil, err
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		if had {
			f.logLine(u, "", process.Rouse, fmt.Sprintf("port %d is taken by another program, so its own is %d from now on", before, address.Port))
		}
		err = f.ports.give(u.name, address.Port, f.units)
	}
	if err != nil {
		f.deps.Log.Error(err, "cannot store the front ports, which may change with the next start")
	}
	return listener, nil
}

func (f *Functions) listenOnFree() (net.Listener, error) {
	if f.options.FirstPort == 0 {
		return listenOn(0)
	}
	for port := f.options.FirstPort; port <= lastPort; port++ {
		if f.ports.taken(port) {
			continue
		}
		listener, err := listenOn(port)
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			continue
		}
		return listener, err
	}
	return nil, fmt.Errorf("no port from %d to %d is free", f.options.FirstPort, lastPort)
}

func listenOn(port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(loopbackHost, strconv.Itoa(port)))
}

// isLoopback reports whether a Host header is a loopback name. A web page whose name resolves to this machine (DNS rebinding) sends that
// name.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

const (
	ownerOnly = 0o600
	// mostPorts bounds the ports that are kept for deleted Functions.
	mostPorts = 1000
)

// ports holds the front ports of Functions, including deleted ones, which may come back. A file holds them, so that a Function keeps its
// port over restarts. Without a file they are lost.
type ports struct {
	file  string
	given map[string]int // by namespace/name
}

// readPorts reads the file. Ports that cannot be read are assigned again.
func readPorts(file string) (*ports, error) {
	p := &ports{file: file, given: map[string]int{}}
	if file == "" {
		return p, nil
	}
	content, err := os.ReadFile(file) //nolint:gosec // of the state folder
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &p.given)
	}
	if err != nil {
		p.given = map[string]int{}
		return p, fmt.Errorf("read the ports of Functions: %w", err)
	}
	maps.DeleteFunc(p.given, func(_ string, port int) bool { return port < 1 || port > lastPort })
	return p, nil
}

// give assigns a port to a Function. Above mostPorts it forgets those of deleted Functions.
func (p *ports) give(fn types.NamespacedName, port int, all map[types.NamespacedName]*unit) error {
	name := fn.String()
	if p.given[name] == port {
		return nil
	}
	p.given[name] = port
	if len(p.given) > mostPorts {
		there := map[string]bool{name: true}
		for other := range all {
			there[other.String()] = true
		}
		maps.DeleteFunc(p.given, func(other string, _ int) bool { return !there[other] })
	}
	if p.file == "" {
		return nil
	}
	if err := p.write(); err != nil {
		return fmt.Errorf("store the ports of Functions: %w", err)
	}
	return nil
}

// write replaces the file atomically.
func (p *ports) write() error {
	content, err := json.Marshal(p.given)
	if err != nil {
		return err
	}
	draft := filepath.Join(filepath.Dir(p.file), "."+filepath.Base(p.file))
	if err := os.WriteFile(draft, content, ownerOnly); err != nil {
		return err
	}
	return os.Rename(draft, p.file)
}

// of returns the port of a Function, if it ever had one.
func (p *ports) of(fn types.NamespacedName) (port int, had bool) {
	port, had = p.given[fn.String()]
	return port, had
}

// taken reports whether a port is assigned to a Function.
func (p *ports) taken(port int) bool {
	for _, other := range p.given {
		if other == port {
			return true
		}
	}
	return false
}

// newActivators returns the activators that serve front ports as the gateways of a cluster serve Functions that sleep.
func newActivators(f *Functions) *activator.Activator {
	options := activator.DefaultOptions()
	options.AllowLoopback, options.StayOnPath, options.FreshConnections = true, true, true
	return activator.New(activator.Deps{Endpoints: f, Functions: f, Begin: f.begin, Log: f.deps.Log}, options)
}

// Serve forwards a request that did not arrive at a front port, and waits up to the given time for a replica. The caller has checked the
// request's host.
func (f *Functions) Serve(w http.ResponseWriter, r *http.Request, function types.NamespacedName, wait time.Duration) {
	f.markOlder(w, function)
	f.activators.Serve(w, r, function, activator.Call{Wait: wait, Stay: true})
}

// handler returns the handler of a front port.
func (f *Functions) handler(name types.NamespacedName) http.Handler {
	activator := f.activators.Handler(name, "")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, fmt.Sprintf("this port is for this machine alone and does not answer as %q; use localhost", r.Host), http.StatusForbidden)
			return
		}
		f.markOlder(w, name)
		activator.ServeHTTP(w, r)
	})
}

// mostReason bounds the header with the reason that an older version answers.
const mostReason = 500

// markOlder adds why the newest version of a Function does not answer, if an older one does.
func (f *Functions) markOlder(w http.ResponseWriter, name types.NamespacedName) {
	f.mu.Lock()
	reason := ""
	if u := f.units[name]; u != nil {
		reason = u.older()
	}
	f.mu.Unlock()
	if reason == "" {
		return
	}
	reason = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, reason[:min(len(reason), mostReason)])
	w.Header().Set(activation.HeaderOlder, reason)
}

// call is a request that keeps its Function awake until it ends.
type call struct{ release func() }

func (f *Functions) begin(name types.NamespacedName) activator.Request {
	if f.deps.Waker == nil {
		return call{func() {}}
	}
	return call{f.deps.Waker.Hold(name)}
}

// Run implements activator.Request.
func (c call) Run() {}

// Wait implements activator.Request.
func (c call) Wait() {}

// End implements activator.Request.
func (c call) End() { c.release() }

// Condition returns the condition of a Function without a ready replica.
func (f *Functions) Condition(name types.NamespacedName) activator.Condition {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := activator.Condition{Wait: f.options.StartWithin, Changed: f.change}
	u := f.units[name]
	switch {
	case f.isOver():
		known.Broken = "the local mode is being stopped"
		return known
	case u == nil || u.removed:
		known.Broken = "the Function was removed"
		return known
	}
	known.Broken, known.Reason = u.broken(time.Now()), u.progress()
	if _, given := u.spec.Annotations[v1alpha2.AnnotationHTTPWait]; given {
		if tuning, err := workload.TuningOf(u.spec.Annotations, workload.Tuning{}); err == nil {
			known.Wait = time.Duration(tuning.HTTPWaitSeconds) * time.Second
		}
	}
	return known
}

func (f *Functions) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// broken returns why no replica will be ready soon; empty when one is, or may be.
func (u *unit) broken(now time.Time) string {
	for _, r := range u.replicas {
		if r.serves() {
			return ""
		}
	}
	if u.hopeless() || now.Before(u.retryAt) {
		return u.lastError()
	}
	return ""
}

// hopeless reports whether there is no prepared version, and no preparation is running or due.
func (u *unit) hopeless() bool {
	return u.launch == nil && u.unprepared != "" && u.preparation.cancel == nil && !u.preparation.due
}

// progress describes the state of a Function's start in one line.
func (u *unit) progress() string {
	status := u.status()
	text := fmt.Sprintf("it is %s, with %d of %d replicas ready", status.Phase, status.Ready, status.Desired)
	if status.LastError != "" {
		text += "; " + firstLine(status.LastError)
	}
	return text
}
