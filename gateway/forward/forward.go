package forward

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http/httputil"
	"sync"
	"time"
)

const (
	// IdleConnTimeout is shorter than servers keep an idle connection, the five seconds of Node.js among them: a request never
	// meets one that its server is closing.
	IdleConnTimeout = 4 * time.Second

	bufferBytes = 32 << 10
)

// IsDial reports whether no connection could be made, so that nothing was sent.
func IsDial(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// Silent takes what net/http has to say of clients that go away.
var Silent = log.New(io.Discard, "", 0)

// Buffers are for copying answers.
var Buffers httputil.BufferPool = &bufferPool{pool: sync.Pool{New: func() any { return new([bufferBytes]byte) }}}

type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferBytes)
}

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }
