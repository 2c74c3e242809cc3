package builder

import (
	"context"
	"errors"
	"fmt"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/language"
)

// reasonError is a failure that the user of the Function can understand.
type reasonError struct {
	reason  language.Reason
	message string
	log     string
}

func (e *reasonError) Error() string { return fmt.Sprintf("%s: %s", e.reason, e.message) }

func fail(reason language.Reason, format string, args ...any) *reasonError {
	return &reasonError{reason: reason, message: fmt.Sprintf(format, args...)}
}

// resultOf reports a failure to the controller. A build that was stopped failed for no other reason, whatever
// its parts reported while they ended.
func resultOf(ctx context.Context, err error) buildplan.Result {
	if err == nil {
		return buildplan.Result{}
	}
	if ctx.Err() != nil {
		return buildplan.Result{
			Reason:  language.Interrupted,
			Message: "the build was stopped before it ended, by its time limit or with its node; it is tried again",
		}
	}
	known := &reasonError{}
	if errors.As(err, &known) {
		return buildplan.Result{Reason: known.reason, Message: known.message, Log: known.log}
	}
	return buildplan.Result{Reason: language.InstallFailed, Message: err.Error()}
}
