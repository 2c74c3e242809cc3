package registry

import (
	"errors"
	"io"
)

var errTooLong = errors.New("its answer is too long")

// answer is the body of a response of which no more than left bytes are read.
type answer struct {
	io.ReadCloser

	left int64
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, errTooLong
	}
	n, err := a.ReadCloser.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}
