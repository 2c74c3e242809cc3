package ingress

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
)

var (
	errTooSlow  = errors.New("the request did not arrive in time")
	errTooLarge = errors.New("http: request body too large") // Kyma's words
	errNoMemory = errors.New("too many bytes of other requests are being stored")
	errCutShort = errors.New("the request ended before its body did")
)

// budget bounds the bytes of all bodies that are in memory at a time.
type budget struct {
	limit int64
	taken atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.taken.Add(n) > b.limit {
		b.taken.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.taken.Add(-n) }

// read takes the body of a request into memory. What it holds of the budget has to be given back when the body is of no
// use any more, also after an error. It takes what the request announces before it reads, or else all that a body may
// have.
func (b *budget) read(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, held int64, err error) {
	size := r.ContentLength
	if size > limit {
		return nil, 0, errTooLarge
	}
	if size < 0 {
		size = limit
	}
	if !b.take(size) {
		return nil, 0, errNoMemory
	}
	if r.ContentLength >= 0 {
		body = make([]byte, size)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
		b.give(size - int64(len(body)))
		size = int64(len(body))
	}
	return body, size, readError(err)
}

// readError is what a publisher is told.
func readError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errTooLarge
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTooSlow
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errCutShort
	default:
		return err
	}
}
