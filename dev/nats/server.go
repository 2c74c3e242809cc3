package nats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats-server/v2/server"
)

const (
	host = "127.0.0.1"
	name = "rouse-dev"
	// startTimeout leaves time to read a large store.
	startTimeout = 30 * time.Second
	// maxMemory is for streams in memory, of which there are none.
	maxMemory    = 64 << 20
	ownersFolder = 0o700
)

// Options of a server.
type Options struct {
	// Folder of the streams. It is made when it is not there.
	Folder string
	// Token that clients have to bring.
	Token string
	// MaxBytes that streams may reserve on disk.
	MaxBytes int64
	// Log gets the messages of the server.
	Log logr.Logger
}

// Server is one that runs.
type Server struct{ running *server.Server }

// Start returns when clients can connect.
func Start(o Options) (*Server, error) {
	if err := os.MkdirAll(o.Folder, ownersFolder); err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	running, err := server.NewServer(&server.Options{
		ServerName: name, Host: host, Port: server.RANDOM_PORT, Authorization: o.Token,
		JetStream: true, StoreDir: o.Folder, JetStreamMaxStore: o.MaxBytes, JetStreamMaxMemory: maxMemory,
		NoSigs: true, NoSystemAccount: false,
	})
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	running.SetLoggerV2(logger{o.Log}, false, false, false)
	running.Start()
	if !running.ReadyForConnections(startTimeout) || !running.JetStreamEnabled() {
		running.Shutdown()
		running.WaitForShutdown()
		return nil, errors.New("start NATS: JetStream did not come up; its log says why")
	}
	return &Server{running: running}, nil
}

// URL is where clients connect, without the token.
func (s *Server) URL() string { return s.running.ClientURL() }

// Close writes down what is in memory and ends the server. It returns when that is done, or when ctx ends.
func (s *Server) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the server
		defer close(done)
		s.running.Shutdown()
		s.running.WaitForShutdown()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop NATS: %w", ctx.Err())
	}
}
