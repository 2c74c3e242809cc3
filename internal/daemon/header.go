package daemon

import "bytes"

// maxHeaderLines of a request, its first line among them: 64 extensions of an event, and what clients and proxies add.
// net/http bounds their bytes alone, and each line of four bytes takes a hundred in memory.
const maxHeaderLines = 128

// header counts the lines of a request's header as they are read. Behind the empty line that ends it nothing counts.
type header struct {
	open   bool
	lines  int
	length int  // of the line that has no end yet
	last   byte // of it
}

func (h *header) begin() { *h = header{open: true} }

func (h *header) end() { h.open = false }

// read is false when the header has too many lines.
func (h *header) read(p []byte) bool {
	for h.open && len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			h.length, h.last = h.length+len(p), p[len(p)-1]
			return true
		}
		if i > 0 {
			h.length, h.last = h.length+i, p[i-1]
		}
		empty := h.length == 0 || h.length == 1 && h.last == '\r'
		h.length, p = 0, p[i+1:]
		switch {
		case !empty:
			if h.lines++; h.lines > maxHeaderLines {
				return false
			}
		case h.lines > 0: // net/http overlooks empty lines before the first
			h.end()
		}
	}
	return true
}
