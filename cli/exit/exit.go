package exit

import (
	"errors"
	"fmt"
)

// Code is what the process ends with.
type Code int

// The codes, which `rouse help exit-codes` explains.
const (
	OK          Code = iota
	Failed           // it did not work, for a reason that has no code of its own
	Usage            // the command line is wrong
	NotFound         // what was asked for does not exist
	Unreachable      // there is no Rouse to talk to, or it denies access
	Refused          // Rouse or the Function answered with an error
)

// Error is an error with a code.
type Error struct {
	Code Code
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap implements errors' chain.
func (e *Error) Unwrap() error { return e.Err }

// Errorf is fmt.Errorf with a code.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// With gives err a code; nil stays nil.
func With(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Err: err}
}

// reported is an error that the command has printed already.
type reported struct{ error }

// Unwrap implements errors' chain.
func (t reported) Unwrap() error { return t.error }

// Reported marks an error that the command has printed in its own words; nil stays nil.
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

// CodeOf is the outermost code of err.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Code
	}
	return Failed
}
