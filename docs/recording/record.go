package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"time"

	"github.com/rouse-run/rouse/internal/testing/screen"
)

const (
	// shutter is how long a picture stands at least: what is drawn in pieces is seen whole.
	shutter = 60 * time.Millisecond
	// grace is how long the program may take to end.
	grace = 10 * time.Second
)

// frame is what the screen showed from a time on.
type frame struct {
	at    time.Duration
	cells [][]screen.Cell
}

// film is all that the screen showed.
type film struct {
	frames []frame
	length time.Duration
}

// record runs command in a terminal, plays the steps, and ends it.
func record(ctx context.Context, command *exec.Cmd, steps []step) (film, error) {
	s, err := screen.Open(columns, rows)
	if err != nil {
		return film{}, fmt.Errorf("open a terminal: %w", err)
	}
	defer s.Close()
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = grace
	if err := s.Start(command); err != nil {
		return film{}, fmt.Errorf("start the program: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	filmed := make(chan film)
	go func() { filmed <- watch(watching, s) }()
	var failed error
	for _, do := range steps {
		if failed = do(ctx, s); failed != nil {
			break
		}
	}
	stop()
	result := <-filmed
	_ = command.Process.Signal(os.Interrupt)
	// The exit code of an interrupted program does not matter.
	_ = command.Wait()
	if failed != nil {
		return film{}, fmt.Errorf("play the script: %w", failed)
	}
	return result, nil
}

// watch takes a frame whenever the screen has changed, until the context ends.
func watch(ctx context.Context, s *screen.Screen) film {
	var result film
	var began time.Time
	ticker := time.NewTicker(shutter)
	defer ticker.Stop()
	for {
		cells := s.Cells()
		if began.IsZero() && !blank(cells) {
			began = time.Now()
		}
		if !began.IsZero() {
			result.add(cells, time.Since(began))
		}
		select {
		case <-ctx.Done():
			return result
		case <-ticker.C:
		}
	}
}

func (f *film) add(cells [][]screen.Cell, at time.Duration) {
	f.length = max(at, shutter)
	if n := len(f.frames); n > 0 && reflect.DeepEqual(f.frames[n-1].cells, cells) {
		return
	}
	f.frames = append(f.frames, frame{at: at, cells: cells})
}

func blank(cells [][]screen.Cell) bool {
	for _, row := range cells {
		for _, cell := range row {
			if cell.Rune != ' ' {
				return false
			}
		}
	}
	return true
}
