package forward

import (
	"io"
	"net/http"
	"time"
)

// Body is that of a request. It may take as long as it likes, while something of it comes.
type Body struct {
	io.ReadCloser
	controller *http.ResponseController
	timeout    time.Duration
	moved      time.Time // when the deadline was last put off
}

// NewBody bounds for how long the caller may send nothing of a body.
func NewBody(of io.ReadCloser, controller *http.ResponseController, timeout time.Duration) *Body {
	return &Body{ReadCloser: of, controller: controller, timeout: timeout}
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.moved) > b.timeout/4 { // rather than at each read
		b.moved = now
		_ = b.controller.SetReadDeadline(now.Add(b.timeout))
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil { // a caller may be silent while he waits for his answer
		b.moved = time.Time{}
		_ = b.controller.SetReadDeadline(time.Time{})
	}
	return n, err
}
