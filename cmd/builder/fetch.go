package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/builder"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/language"
)

// fetch brings what the next container needs: this program, and the source of a repository.
func (o *options) fetch(ctx context.Context, b *builder.Builder) buildplan.Result {
	if err := copyProgram(o.binaryDir); err != nil {
		return buildplan.Result{Reason: language.Interrupted, Message: err.Error()}
	}
	return b.Fetch(ctx)
}

// copyProgram writes this program to the directory, under the name builder.
func copyProgram(to string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	in, err := os.Open(self) //nolint:gosec // this program
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(filepath.Join(to, "builder"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) //nolint:gosec // another user runs it
	if err != nil {
		return fmt.Errorf("write the copy: %w", err)
	}
	defer func() {
		if closed := out.Close(); err == nil && closed != nil {
			err = fmt.Errorf("write the copy: %w", closed)
		}
	}()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("write the copy: %w", err)
	}
	return nil
}
