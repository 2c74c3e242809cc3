package forward

import (
	"io"
	"net/http"
)

// CleanTrailer takes away headers of Rouse's own from the trailer of an answer, which is known when its body has ended.
func CleanTrailer(answer *http.Response) {
	if len(answer.TransferEncoding) > 0 { // an answer without chunks has none
		RemoveOwn(answer.Trailer)
		answer.Body = &trailed{answer.Body, answer}
	}
}

type trailed struct {
	io.ReadCloser
	of *http.Response
}

// Read implements io.Reader.
func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != nil {
		RemoveOwn(t.of.Trailer)
	}
	return n, err
}
