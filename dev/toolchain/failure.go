package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/rouse-run/rouse/internal/dependencies"
)

// Reason classifies why a Function cannot be started. Beside those below there are the reasons of package buildplan.
type Reason string

// Reasons that a build in a cluster does not have.
const (
	InterpreterMissing Reason = "InterpreterMissing" // nothing that runs the language, or one that is too old
	RuntimeUnavailable Reason = "RuntimeUnavailable" // the runtime's server cannot be prepared
	ReferenceMissing   Reason = "ReferenceMissing"   // a ConfigMap or Secret, or a key of one, is not there
	CacheUnusable      Reason = "CacheUnusable"      // the cache or the state folder cannot be written
	Interrupted        Reason = "Interrupted"        // it was stopped before it ended
)

// Failure is why a Function cannot be started and what to do about it.
type Failure struct { //nolint:errname // a failed start, which is printed as it is
	Reason  Reason
	Message string
	// Log has the last lines of the package manager, when it failed.
	Log string
}

// Error is the reason and the message.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Reason, f.Message) }

func fail(reason Reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// asFailure makes a Failure of any error, and nil of none.
func asFailure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fail(Interrupted, "it was stopped before the Function could be started")
	}
	if known, ok := errors.AsType[*Failure](err); ok {
		return known
	}
	if install, ok := errors.AsType[*dependencies.Failure](err); ok {
		return &Failure{Reason: Reason(install.Reason), Message: install.Message, Log: install.Log}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fail(CacheUnusable, "%v; make room on that disk, or set XDG_CACHE_HOME and XDG_STATE_HOME to folders on another one", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return fail(CacheUnusable, "%v; make it a folder that you can write, or set XDG_CACHE_HOME and XDG_STATE_HOME to others", err)
	}
	return fail(CacheUnusable, "%v", err)
}
