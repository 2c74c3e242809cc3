package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/builder"
	"github.com/rouse-run/rouse/internal/buildplan"
)

type options struct {
	builder        builder.Options
	binaryDir      string
	gitDir         string
	terminationLog string
}

func defaultOptions() *options {
	return &options{
		builder: builder.DefaultOptions(), binaryDir: buildplan.BinaryDir, gitDir: buildplan.GitDir, terminationLog: "/dev/termination-log",
	}
}

// BindFlags adds all flags of the command.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	o.builder.BindFlags(fs)
	fs.StringVar(&o.binaryDir, "binary-dir", o.binaryDir, "directory that fetch copies this program to")
	fs.StringVar(&o.gitDir, "git-dir", o.gitDir, "directory with the credentials of the Git repository")
	fs.StringVar(&o.terminationLog, "termination-log", o.terminationLog, "file that the result is written to")
}

// Validate reports everything that is wrong.
func (o *options) Validate() error { return o.builder.Validate() }

// end reports the result to the controller and, when it is a failure, to the exit code.
func (o *options) end(result buildplan.Result) error {
	var failure error
	if result.Reason != "" {
		failure = fmt.Errorf("%s: %s", result.Reason, result.Message)
	}
	text, err := buildplan.EncodeResult(result)
	if err == nil {
		err = os.WriteFile(o.terminationLog, text, 0o644) //nolint:gosec // the kubelet reads it
	}
	if err != nil {
		err = fmt.Errorf("report the result: %w", err)
	}
	return errors.Join(failure, err)
}
