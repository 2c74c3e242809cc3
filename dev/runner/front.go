package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/dev/process"
)

const (
	loopbackHost = "127.0.0.1"
	lastPort     = 65535
	// headersWithin bounds how long a client may take for its headers.
	headersWithin = 30 * time.Second
	// answersWithin is how long the last answers may take when a port is closed.
	answersWithin = 200 * time.Millisecond
)

// front is the HTTP port of a Function on this machine. It stays the same however many replicas there are.
type front struct {
	listener net.Listener
	server   *http.Server
}

func (f *front) url() string { return "http://" + f.listener.Addr().String() }

// close ends the port. What is in flight has no replica any more and ends at once, or is cut off.
func (f *front) close() {
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	if f.server.Shutdown(ctx) != nil {
		_ = f.server.Close()
	}
}

// serve opens the port of a Function that has none yet, and closes that of one which is gone.
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
		ErrorLog:          log.New(io.Discard, "", 0), // of clients that went away
	}}
	u.front = opened
	f.running.Go(func() {
		if err := opened.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			f.deps.Log.Error(err, "a front port has ended", "namespace", name.Namespace, "function", name.Name)
		}
	})
	f.announce()
}

// listen gives a Function the port that it had before, or else the next one that is free and given to no other, which is its
// own from then on.
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
		f.deps.Log.Error(err, "front ports may change with the next start")
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
