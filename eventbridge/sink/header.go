package sink

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// maxLinesRead of an answer before its body: what maxLines leaves, the first line, headers that net/http takes out, and
// interim answers. net/http bounds the bytes alone, and each line of four bytes takes a hundred in memory.
const maxLinesRead = 2 * maxLines

// statusSize is how far the status reaches in a first line.
const statusSize = len("HTTP/1.1 200")

// header counts the lines of an answer as they are read, and of the interim ones before it. Behind the empty line that
// ends the answer's header nothing counts.
type header struct {
	over   bool
	lines  int
	first  bool // the line at hand is not the first one of an answer any more
	length int  // of the line at hand, without its end
	status [statusSize]byte
}

// many reports that there are too many lines.
func (h *header) many() bool { return h.lines > maxLinesRead }

// read fails when there are too many lines.
func (h *header) read(p []byte) error {
	for _, c := range p {
		switch {
		case h.over:
			return nil
		case c == '\r':
		case c != '\n':
			if !h.first && h.length < statusSize {
				h.status[h.length] = c
			}
			h.length++
		case h.length == 0:
			h.over = h.lines > 0 && !h.interim()
			h.first = false
		default:
			if h.lines++; h.many() {
				return errManyLines
			}
			h.first, h.length = true, 0
		}
	}
	return nil
}

// interim reports whether another answer follows the one at hand.
func (h *header) interim() bool {
	code := string(h.status[statusSize-3:])
	return code[0] == '1' && code != "101"
}

// counted is a connection of net/http's, which answers one request at a time.
type counted struct {
	net.Conn

	next   atomic.Bool // another answer comes
	header header      // of the answer that is read
}

// Read implements net.Conn. It fails for good: a reader of lines drops an error behind a whole line, and reads on.
func (c *counted) Read(p []byte) (int, error) {
	if c.header.many() {
		return 0, errManyLines
	}
	n, err := c.Conn.Read(p)
	if c.next.Swap(false) {
		c.header = header{}
	}
	if many := c.header.read(p[:n]); many != nil {
		return 0, many
	}
	return n, err
}

// dialFunc connects.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// counting has connections count the lines of their answers.
func counting(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &counted{Conn: conn}, nil
	}
}

// asked marks a connection that has been picked for a request.
func asked(info httptrace.GotConnInfo) {
	if conn, ok := info.Conn.(*counted); ok {
		conn.next.Store(true)
	}
}
