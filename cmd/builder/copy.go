package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
)

// copyOptions are the flags of "builder copy".
type copyOptions struct{ to string }

// BindFlags adds --to.
func (o *copyOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.to, "to", o.to, "directory that the builder copies itself to")
}

// Validate refuses an empty directory.
func (o *copyOptions) Validate() error {
	if o.to == "" {
		return errors.New("--to: must not be empty")
	}
	return nil
}

// copy writes this program to the directory, under the name builder.
func (o *copyOptions) copy() (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	in, err := os.Open(self) //nolint:gosec // this program
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(filepath.Join(o.to, "builder"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) //nolint:gosec // another user runs it
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
