package daemon

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
)

// maxHeaderLines of a request, its first line among them: 64 extensions of an event, and what clients and proxies add.
// net/http bounds their bytes alone, and each line of four bytes takes a hundred in memory.
const maxHeaderLines = 128

// A request whose header has one of these is over. net/http answers nothing to errors of their type.
var (
	errManyHeaders = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the request has too many headers")}
	errTwoLengths  = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the request has Content-Length and Transfer-Encoding")}
)

const (
	contentLength    = "content-length:"
	transferEncoding = "transfer-encoding:"
)

// header looks at the lines of a request's header as they are read. Behind the empty line that ends it nothing counts, nor does a
// request that was sent before the one ahead of it was answered.
type header struct {
	open   bool
	lines  int
	length int                         // of the line that has no end yet
	last   byte                        // of it
	start  [len(transferEncoding)]byte // of it
	sized  bool                        // there is a Content-Length
	coded  bool                        // there is a Transfer-Encoding
}

func (h *header) begin() { *h = header{open: true} }

func (h *header) end() { h.open = false }

// read fails when the header has too many lines, or says in two ways where its body ends: who is before this server may have taken
// the other one.
func (h *header) read(p []byte) error {
	for h.open && len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if len(part) > 0 {
			if h.length < len(h.start) {
				copy(h.start[h.length:], part)
			}
			h.length, h.last = h.length+len(part), part[len(part)-1]
		}
		if i < 0 {
			return nil
		}
		p = p[i+1:]
		if err := h.endLine(); err != nil {
			return err
		}
	}
	return nil
}

func (h *header) endLine() error {
	length := h.length
	h.length = 0
	if length == 0 || length == 1 && h.last == '\r' {
		if h.lines > 0 { // net/http overlooks empty lines before the first
			h.end()
		}
		return nil
	}
	if h.lines++; h.lines > maxHeaderLines {
		return errManyHeaders
	}
	switch h.start[0] {
	case 'C', 'c':
		h.sized = h.sized || length >= len(contentLength) && strings.EqualFold(string(h.start[:len(contentLength)]), contentLength)
	case 'T', 't':
		h.coded = h.coded || length >= len(transferEncoding) && strings.EqualFold(string(h.start[:]), transferEncoding)
	}
	if h.sized && h.coded {
		return errTwoLengths
	}
	return nil
}

// halfConn is a connection that is closed for writing first.
type halfConn interface {
	io.Writer
	CloseWrite() error
}

// refuse answers a request that net/http does not see whole.
func refuse(c halfConn, why error) {
	text := "431 Request Header Fields Too Large"
	if errors.Is(why, errTwoLengths) {
		text = "400 Bad Request: Content-Length beside Transfer-Encoding"
	}
	status, _, _ := strings.Cut(text, ":")
	_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+text)
	_ = c.CloseWrite()
}
