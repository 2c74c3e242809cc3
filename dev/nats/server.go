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
	// startTimeout bounds the start, with time to read a large store.
	startTimeout = 30 * time.Second
	// maxMemory bounds streams in memory, of which there are none.
	maxMemory    = 64 << 20
	ownersFolder = 0o700
)

// Options are the options of a Server.
type Options struct {
	// Folder is the folder of the streams. Start creates it.
	Folder string
	// Token is the token that clients have to send.
	Token string
	// MaxBytes bounds the disk space that streams reserve.
	MaxBytes int64
	// Log receives the messages of the server.
	Log logr.Logger
}

// Server is a running nats-server.
type Server struct{ running *server.Server }

// Start starts a server. It returns when clients can connect.
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
		return nil, errors.New("start NATS: JetStream did not start; see its messages in the log")
	}
	return &Server{running: running}, nil
}

// URL returns the URL for clients, without the token.
func (s *Server) URL() string { return s.running.ClientURL() }

// Close flushes the streams to disk and stops the server. It returns when that is done, or when ctx ends.
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

// logger writes the messages of a nats-server to logr.
type logger struct{ log logr.Logger }

// Noticef implements server.Logger.
func (l logger) Noticef(format string, args ...any) { l.log.V(1).Info(fmt.Sprintf(format, args...)) }

// Warnf implements server.Logger.
func (l logger) Warnf(format string, args ...any) { l.log.Info(fmt.Sprintf(format, args...)) }

// Errorf implements server.Logger.
func (l logger) Errorf(format string, args ...any) { l.fail(format, args...) }

// Fatalf implements server.Logger. The server stops itself.
func (l logger) Fatalf(format string, args ...any) { l.fail(format, args...) }

// Debugf implements server.Logger.
func (l logger) Debugf(format string, args ...any) { l.log.V(1).Info(fmt.Sprintf(format, args...)) }

// Tracef implements server.Logger.
func (l logger) Tracef(string, ...any) {}

func (l logger) fail(format string, args ...any) {
	l.log.Error(fmt.Errorf(format, args...), "NATS failed")
}
