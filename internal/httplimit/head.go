package httplimit

import "net/http"

const (
	// MaxHeadBytes bounds the head of an answer.
	MaxHeadBytes = 16 << 10
	// MaxHeadLines bounds the lines of its header.
	MaxHeadLines = 64

	// maxLinesRead is what MaxLines leaves, the first line, headers that net/http takes out, and interim answers.
	maxLinesRead = 2 * MaxHeadLines

	// shortBytes and shortLines are those of a head that any request may have.
	shortBytes = 4 << 10
	shortLines = 32

	// statusSize is how far the status reaches in a first line.
	statusSize = len("HTTP/1.1 200")
)

// HeadError is why the head of an answer is refused.
type HeadError string

// HeadError implements error.
func (e HeadError) Error() string { return string(e) }

// What may be wrong.
const (
	ErrHeadLines = HeadError("the header of the answer has more than 64 lines")
	ErrHeadBytes = HeadError("the header of the answer has more than 16384 bytes")
	ErrHeadShare = HeadError("too many answers of this namespace with headers of more than 4096 bytes or 32 lines are under way")
)

// Head counts the lines and bytes of an answer as they are read, and of the interim ones before it. Behind the empty line that ends
// the header of the answer nothing counts. It is a plain value.
type Head struct {
	over   bool
	lines  int
	bytes  int
	first  bool // the line at hand is not the first one of an answer any more
	length int  // of the line at hand, without its end
	status [statusSize]byte
}

// Read counts bytes, and fails when there are too many of them or of their lines. It returns how many could be read before.
func (h *Head) Read(p []byte) (int, error) {
	for i, c := range p {
		if h.over {
			return len(p), nil
		}
		if h.bytes++; h.bytes > MaxHeadBytes {
			return i, ErrHeadBytes
		}
		switch {
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
			if h.lines++; h.lines > maxLinesRead {
				return i, ErrHeadLines
			}
			h.first, h.length = true, 0
		}
	}
	return len(p), nil
}

// interim reports whether another answer follows the one at hand.
func (h *Head) interim() bool {
	code := string(h.status[statusSize-3:])
	return code[0] == '1' && code != "101"
}

// long reports whether the head takes more than any may.
func (h *Head) long() bool { return h.bytes > shortBytes || h.lines > shortLines }

// CheckHead fails for a header of too many lines.
func CheckHead(header http.Header) error {
	lines := 0
	for _, values := range header {
		lines += len(values)
	}
	if lines > MaxHeadLines {
		return ErrHeadLines
	}
	return nil
}
