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
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	_ "time/tzdata" // the image has no time zones

	"github.com/rouse-run/rouse/runtimes/golang/function/crash"
)

const (
	// keepAlive is longer than clients keep an idle connection, so that it is they who close it.
	keepAlive = 2 * time.Minute
	// linger is for how long a request is still answered that a client was sending on a connection which it has kept.
	linger = time.Second
	// headerTimeout bounds who sends a request byte by byte.
	headerTimeout = 20 * time.Second
)

// Serve runs the Function until a signal ends it. Builds call it, after all packages are initialised.
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

// drain takes no new connection, and ends those that there are once they are idle for long enough.
func (d *dispatcher) drain(server *http.Server, listener io.Closer, open *connections) {
	d.draining.Store(true)
	_ = listener.Close() // Serve has it closed as well
	for end := time.Now().Add(linger); open.any() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	// A call that hangs has been answered: it keeps nothing open.
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
		return fmt.Errorf("FUNC_READY_FD=%d is no descriptor", settings.ready)
	}
	_, err = file.WriteString(port + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.New("cannot write to FUNC_READY_FD=" + strconv.Itoa(settings.ready) + ": " + err.Error())
	}
	return nil
}

// connections knows those that are open.
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

// any reports whether a client may still send something on a connection that it has kept.
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
