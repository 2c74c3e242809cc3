package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
)

// journal is what a sink has written down.
type journal struct {
	path   string
	offset int64
	times  map[int]int // how often each event was taken
	total  int
	order  order
}

func newJournal(path string) *journal {
	return &journal{path: path, times: map[int]int{}, order: order{taken: map[int]int{}}}
}

// read takes what was added since the last time.
func (j *journal) read() error {
	file, err := os.Open(j.path)
	if err != nil {
		return fmt.Errorf("read a journal: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(j.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read a journal: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("read a journal: %w", err)
	}
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return nil
		}
		id, err := strconv.Atoi(string(line))
		if err != nil {
			return fmt.Errorf("read a journal: %w", err)
		}
		j.times[id]++
		j.order.note(id)
		j.total++
		j.offset += int64(len(line)) + 1
		text = rest
	}
}
