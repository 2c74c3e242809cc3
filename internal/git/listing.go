package git

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// listing reads what a server says of its references. It notes what is wanted and hands no more on than the first line, which
// has the server's capabilities, and what is none of a list: how long it is costs no memory.
type listing struct {
	from *bufio.Reader
	into *selection
	left int // bytes that may still come

	began bool   // the first reference has passed
	plain bool   // what comes is not looked at
	ready []byte // to be handed on
	err   error  // after that
}

func newListing(from io.Reader, into *selection) *listing {
	return &listing{from: bufio.NewReaderSize(from, maxPacket), into: into, left: maxAdvertised}
}

const (
	lengthSize = 4
	maxPacket  = 65520 // with its length
)

// Read implements io.Reader.
func (l *listing) Read(p []byte) (int, error) {
	for len(l.ready) == 0 && l.err == nil && !l.plain {
		l.ready, l.err = l.next()
	}
	if len(l.ready) > 0 {
		n := copy(p, l.ready)
		l.ready = l.ready[n:]
		return n, nil
	}
	if l.err != nil {
		return 0, l.err
	}
	if l.left == 0 {
		return 0, errTooLong
	}
	n, err := l.from.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

var errTooLong = &Error{Kind: Unreadable, Message: fmt.Sprintf(
	"the repository lists more than %d MiB of branches and tags, which is more than is read", maxAdvertised>>20)}

// next takes a packet, and returns it where it has to be handed on.
func (l *listing) next() ([]byte, error) {
	size := l.size()
	if size == 0 {
		l.plain = true // an end, too few bytes or no Git: whoever reads on finds out
		return nil, nil
	}
	if size == lengthSize { // a flush, or a packet without content
		l.plain = l.began
	}
	if l.left -= size; l.left < 0 {
		return nil, errTooLong
	}
	packet, err := l.from.Peek(size)
	if err == nil && l.take(packet[lengthSize:]) {
		packet = nil
	}
	_, _ = l.from.Discard(min(size, l.from.Buffered())) // keeps what was peeked until the next packet
	return packet, err
}

// size is that of the next packet with its length, and 0 where there is none.
func (l *listing) size() int {
	head, err := l.from.Peek(lengthSize)
	if err != nil {
		return 0
	}
	size, err := strconv.ParseUint(string(head), 16, 16)
	if err != nil || size > maxPacket {
		return 0
	}
	return max(int(size), lengthSize)
}

// take reports whether a line is one of a list that need not be handed on.
func (l *listing) take(line []byte) bool {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if l.began && bytes.HasPrefix(line, []byte("shallow ")) {
		return true
	}
	line, _, _ = bytes.Cut(line, []byte{0}) // what follows are capabilities
	if len(line) <= hashSize+1 || line[hashSize] != ' ' || !isHash(line[:hashSize]) {
		return false
	}
	l.into.see(line[hashSize+1:], line[:hashSize])
	first := !l.began
	l.began = true
	return !first
}

const hashSize = 40

func isHash(text []byte) bool {
	for _, letter := range text {
		if (letter < '0' || letter > '9') && (letter < 'a' || letter > 'f') {
			return false
		}
	}
	return true
}
