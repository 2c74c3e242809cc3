package httplimit

import "net/http"

const (
	// MaxHeadBytes bounds the head of a response.
	MaxHeadBytes = 16 << 10
	// MaxHeadLines bounds the lines of its header.
	MaxHeadLines = 64

	// maxLinesRead allows for the first line, headers that net/http removes, and interim responses.
	maxLinesRead = 2 * MaxHeadLines

	// shortBytes and shortLines bound a head that needs no account.
	shortBytes = 4 << 10
	shortLines = 32

	// statusSize is the length of the first line up to the status code.
	statusSize = len("HTTP/1.1 200")
)

// HeadError is the reason why the head of a response is rejected.
type HeadError string

// HeadError implements error.
func (e HeadError) Error() string { return string(e) }

// The reasons.
const (
	ErrHeadLines = HeadError("the header of the answer has more than 64 lines")
	ErrHeadBytes = HeadError("the header of the answer has more than 16384 bytes")
	ErrHeadShare = HeadError("too many answers of this namespace with headers of more than 4096 bytes or 32 lines are under way")
)

// Head counts the lines and bytes of a response as they are read, and of the interim responses before it. It ignores
// everything after the empty line that ends the header. It is a plain value.
type Head struct {
	over   bool
	lines  int
	bytes  int
	first  bool // the current line is not the first of a response
	length int  // of the current line, without its end
	status [statusSize]byte
}

// Read counts bytes, and fails when there are too many bytes or lines. It returns the number of bytes before the
// failure.
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

// interim reports whether another response follows the current one.
func (h *Head) interim() bool {
	code := string(h.status[statusSize-3:])
	return code[0] == '1' && code != "101"
}

// long reports whether the head exceeds the free size.
func (h *Head) long() bool { return h.bytes > shortBytes || h.lines > shortLines }

// CheckHead returns an error for a header with too many lines.
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
