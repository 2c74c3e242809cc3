package dev

import (
	"io"
	"time"

	"github.com/rouse-run/rouse/dev/view"
)

// slowStart is how long something may take in silence before there is a view.
const slowStart = time.Second

// reportIfSlow prints what is being done once that takes long. It returns when do has, and writes nothing after.
func reportIfSlow(out io.Writer, after time.Duration, text string, do func() error) error {
	done, reported := make(chan struct{}), make(chan error, 1)
	go func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-done:
			reported <- nil
		case <-timer.C:
			reported <- view.PrintLine(out, text)
		}
	}()
	err := do()
	close(done)
	if written := <-reported; err == nil {
		err = written
	}
	return err
}
