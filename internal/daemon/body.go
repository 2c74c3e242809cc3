package daemon

import (
	"errors"
	"net/http"
	"time"
)

// ErrBody is why WithoutBody refuses a request.
var ErrBody = errors.New("body: this request has none; send it without Content-Length and Transfer-Encoding")

// WithoutBody returns ErrBody for a request with a body, whose connection is closed after the answer. A handler calls it before it
// removes the read deadline: net/http waits for a body before it writes the header of an answer, and would wait without an end.
func WithoutBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // nothing is read of it; recorders have no deadlines
	return ErrBody
}
