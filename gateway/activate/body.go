package activate

import (
	"io"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
)

// leftoverTimeout is for how long the rest of a body is read that nobody wants.
const leftoverTimeout = time.Second

// body is that of a request.
type body struct {
	*forward.Body
	controller *http.ResponseController
}

func newBody(of io.ReadCloser, controller *http.ResponseController, timeout time.Duration) *body {
	// The server's own limit is for the whole of a request, and would end streams.
	_ = controller.SetReadDeadline(time.Time{})
	return &body{forward.NewBody(of, controller, timeout), controller}
}

// end closes the body, which the server does not once reading and writing go on at the same time. What is left of it is read, so that
// the connection can be kept, but only what comes soon: else who sends no more would be waited for.
func (b *body) end() {
	_ = b.controller.SetReadDeadline(time.Now().Add(leftoverTimeout))
	_ = b.Close()
}
