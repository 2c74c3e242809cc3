package convert

import (
	"fmt"
	"io"
	"os"
)

// MaxInput bounds what is read of each file, and of the input.
const MaxInput = 64 << 20

// Input is what stands for standard input in place of a file.
const Input = "-"

// ReadFile reads a file, or the input for "-", and its name for messages.
func ReadFile(in io.Reader, path string) (name string, content []byte, err error) {
	name = path
	if path == Input {
		name = "the input"
	} else {
		opened, err := os.Open(path) //nolint:gosec // the user names it
		if err != nil {
			return "", nil, err
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	content, err = io.ReadAll(io.LimitReader(in, MaxInput+1))
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("read %s: %w", name, err)
	case len(content) > MaxInput:
		return "", nil, fmt.Errorf("%s is larger than %d MiB: take several", name, MaxInput>>20)
	}
	return name, content, nil
}
