package loopback

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Request is one request as it came.
type Request struct {
	Method, Host, URI, Remote string
	Header                    http.Header
	Body                      []byte
}

// ID is the id of the event.
func (r Request) ID() string { return r.Header.Get("Ce-Id") }

// Sink is a sink.
type Sink struct {
	handler http.Handler
	address string

	mu       sync.Mutex
	server   *http.Server
	requests []Request
	arrived  chan struct{} // closed and replaced at each request
}

// StartSink serves until the test ends.
func StartSink(t testing.TB, handler http.HandlerFunc) *Sink {
	t.Helper()
	s := ReserveSink(t, handler)
	s.Restart(t)
	return s
}

// ReserveSink finds an address that refuses connections until Restart is called. A nil handler answers 204.
func ReserveSink(t testing.TB, handler http.HandlerFunc) *Sink {
	t.Helper()
	if handler == nil {
		handler = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	}
	s := &Sink{handler: handler, address: Address(t), arrived: make(chan struct{})}
	t.Cleanup(s.Stop)
	return s
}

// Address is host:port. It stays the same over Stop and Restart.
func (s *Sink) Address() string { return s.address }

// Stop cuts all connections; new ones are refused.
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
	body, _ := io.ReadAll(r.Body) // what came is what is recorded
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

// Requests are all that came so far, in order.
func (s *Sink) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Await waits until n requests came and returns all.
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

// Deliveries counts the requests of each event id.
func (s *Sink) Deliveries() map[string]int {
	counts := map[string]int{}
	for _, request := range s.Requests() {
		counts[request.ID()]++
	}
	return counts
}
