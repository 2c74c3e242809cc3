package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"time"
)

// journal reads the file in which a sink records the events that it accepted.
type journal struct {
	path   string
	offset int64
	times  map[int]int       // how often each event was taken
	first  map[int]time.Time // when each was taken first
	total  int
	order  order
}

func newJournal(path string) *journal {
	return &journal{path: path, times: map[int]int{}, first: map[int]time.Time{}, order: order{last: map[int]int{}}}
}

// read reads the entries that were added since the last time.
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
		var id int
		var taken int64
		if _, err := fmt.Sscan(string(line), &id, &taken); err != nil {
			return fmt.Errorf("read a journal: %w", err)
		}
		if j.times[id]++; j.times[id] == 1 {
			j.first[id] = time.Unix(0, taken)
			j.order.note(id)
		}
		j.total++
		j.offset += int64(len(line)) + 1
		text = rest
	}
}
