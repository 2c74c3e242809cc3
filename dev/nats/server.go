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

// logger is a nats-server's log on logr.
type logger struct{ log logr.Logger }

// Noticef implements server.Logger.
func (l logger) Noticef(format string, args ...any) { l.log.V(1).Info(fmt.Sprintf(format, args...)) }

// Warnf implements server.Logger.
func (l logger) Warnf(format string, args ...any) { l.log.Info(fmt.Sprintf(format, args...)) }

// Errorf implements server.Logger.
func (l logger) Errorf(format string, args ...any) { l.fail(format, args...) }

// Fatalf implements server.Logger. The server ends itself.
func (l logger) Fatalf(format string, args ...any) { l.fail(format, args...) }

// Debugf implements server.Logger.
func (l logger) Debugf(format string, args ...any) { l.log.V(1).Info(fmt.Sprintf(format, args...)) }

// Tracef implements server.Logger.
func (l logger) Tracef(string, ...any) {}

func (l logger) fail(format string, args ...any) {
	l.log.Error(fmt.Errorf(format, args...), "NATS failed")
}
