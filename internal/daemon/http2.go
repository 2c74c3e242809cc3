package daemon

import (
	"bytes"
	"log"
	"net/http"

	"github.com/go-logr/logr"
)

const (
	// maxStreams is how many requests an HTTP/2 connection has at a time. net/http counts those that a client has reset until their
	// handlers have returned, and ends the connection of a client that goes on to make more.
	maxStreams = 100
	// maxBuffer is what is received of the bodies of a connection that no handler reads: the least that there is.
	maxBuffer = 64 << 10
	maxFrame  = 16 << 10
)

func boundedHTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              maxFrame,
		MaxReceiveBufferPerStream:     maxBuffer,
		MaxReceiveBufferPerConnection: maxBuffer,
	}
}

// errorLog leaves out what any client can have net/http write by what it sends.
func errorLog(to logr.Logger) *log.Logger { return log.New(panics{to}, "", 0) }

// panics are those of handlers.
type panics struct{ log logr.Logger }

// Write implements io.Writer.
func (p panics) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic serving")) {
		p.log.Info("handler panicked", "text", string(line))
	}
	return len(line), nil
}
