package function

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

	"k8s.io/apimachinery/pkg/types"
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
	listener, err := f.listen(u.name)
	if err != nil {
		u.frontless = fmt.Sprintf("it has no port for HTTP requests: %s", err)
		return
	}
	u.frontless = ""
	name := u.name
	opened := &front{listener: listener, server: &http.Server{
		Handler:           &proxy{functions: f, name: name, transport: newTransport()},
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

// listen gives a Function the port that it had before, or else the next free one.
func (f *Functions) listen(name types.NamespacedName) (net.Listener, error) {
	if port, ok := f.ports[name]; ok {
		if listener, err := listenOn(port); err == nil {
			return listener, nil
		}
	}
	if f.options.FirstPort == 0 {
		return f.remember(name, 0)
	}
	taken := make(map[int]bool, len(f.ports))
	for _, port := range f.ports {
		taken[port] = true
	}
	for port := f.options.FirstPort; port <= lastPort; port++ {
		if taken[port] {
			continue
		}
		listener, err := f.remember(name, port)
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			continue
		}
		return listener, err
	}
	return nil, fmt.Errorf("no port from %d to %d is free", f.options.FirstPort, lastPort)
}

func (f *Functions) remember(name types.NamespacedName, port int) (net.Listener, error) {
	listener, err := listenOn(port)
	if err != nil {
		return nil, err
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		f.ports[name] = address.Port
	}
	return listener, nil
}

func listenOn(port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(loopbackHost, strconv.Itoa(port)))
}
