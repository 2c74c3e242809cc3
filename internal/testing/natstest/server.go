package natstest

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const startTimeout = 30 * time.Second

// Option changes the configuration of a server before it starts.
type Option func(*server.Options)

// WithMaxStore limits how many bytes the server's streams may reserve on disk.
func WithMaxStore(bytes int64) Option {
	return func(o *server.Options) { o.JetStreamMaxStore = bytes }
}

// WithMaxPayload limits the size of a message.
func WithMaxPayload(bytes int32) Option {
	return func(o *server.Options) { o.MaxPayload = bytes }
}

// WithMaxConsumers is how many consumers a stream may have for which no other limit is set.
func WithMaxConsumers(n int) Option {
	return func(o *server.Options) { o.JetStreamLimits.DefaultMaxConsumers = n }
}

// WithoutJetStream starts a server that has no streams at all.
func WithoutJetStream() Option {
	return func(o *server.Options) { o.JetStream = false }
}

// WithUser makes the server ask for a user and a password.
func WithUser(name, password string) Option {
	return func(o *server.Options) { o.Username, o.Password = name, password }
}

// Server is one nats-server of a test.
type Server struct {
	t       testing.TB
	options server.Options
	running *server.Server
}

// Start runs a server until the test ends.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := &Server{t: t, options: server.Options{
		Host:      loopback.Host,
		Port:      loopback.Reserve(t),
		JetStream: true,
		StoreDir:  t.TempDir(),
		NoLog:     true,
		NoSigs:    true,
	}}
	for _, change := range options {
		change(&s.options)
	}
	s.Run()
	t.Cleanup(s.Stop)
	return s
}

// URL is where clients connect; it stays the same for the life of the test.
func (s *Server) URL() string {
	return "nats://" + net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}

// Run starts the server again after Stop.
func (s *Server) Run() {
	s.t.Helper()
	options := s.options
	running, err := server.NewServer(&options)
	require.NoError(s.t, err, "configure nats-server")
	running.Start()
	s.running = running
	require.True(s.t, running.ReadyForConnections(startTimeout), "nats-server is not ready on %s", s.URL())
}

// Stop ends the server and waits until it is gone. It may be called twice.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Restart stops the server and starts it on the same port with the same store.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Run()
}

// Change stops the server and starts it with other options on the same port with the same store.
func (s *Server) Change(options ...Option) {
	s.t.Helper()
	s.Stop()
	for _, change := range options {
		change(&s.options)
	}
	s.Run()
}
