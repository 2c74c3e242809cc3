package exit

import (
	"errors"
	"fmt"
)

// Code is an exit code.
type Code int

// The codes, which `rouse help exit-codes` explains.
const (
	OK          Code = iota
	Failed           // failed for a reason without a code of its own
	Usage            // the command line is wrong
	NotFound         // the requested object does not exist
	Unreachable      // no Rouse responds, or it denies access
	Refused          // Rouse or the Function returned an error
)

// Error is an error with an exit code.
type Error struct {
	Code Code
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error like fmt.Errorf, with a code.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// With adds a code to err; nil stays nil.
func With(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Err: err}
}

// reported is an error that the command has printed.
type reported struct{ error }

// Unwrap returns the wrapped error.
func (t reported) Unwrap() error { return t.error }

// Reported marks an error that the command has printed; nil stays nil.
func Reported(err error) error {
	if err == nil {
		return nil
	}
	return reported{err}
}

// IsReported reports whether an error was printed already.
func IsReported(err error) bool {
	_, ok := errors.AsType[reported](err)
	return ok
}

// CodeOf returns the outermost code of err.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Code
	}
	return Failed
}
