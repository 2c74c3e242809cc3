package kube

import (
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictDelay is how soon a write is repeated that met another writer.
const conflictDelay = 200 * time.Millisecond

// StalledError means that the user has to act: trying again would not help.
type StalledError struct{ err error }

// Stalled marks err as one that only a change of the object can resolve.
func Stalled(err error) error { return &StalledError{err: err} }

// Error is the text of the cause.
func (e *StalledError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *StalledError) Unwrap() error { return e.err }

// WaitingError means that something outside is missing for now.
type WaitingError struct {
	err   error
	after time.Duration
}

// Waiting marks err as one whose object is requeued after a while.
func Waiting(err error, after time.Duration) error { return &WaitingError{err: err, after: after} }

// Error is the text of the cause.
func (e *WaitingError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *WaitingError) Unwrap() error { return e.err }

// Result turns the error of a reconciliation into what controller-runtime wants:
// nothing more to do when stalled, a later try when waiting or when another client
// wrote at the same time, and a retry with backoff for any other error.
func Result(err error) (ctrl.Result, error) {
	var stalled *StalledError
	var waiting *WaitingError
	switch {
	case err == nil:
		return ctrl.Result{}, nil
	case errors.As(err, &waiting):
		return ctrl.Result{RequeueAfter: jitter(waiting.after)}, nil
	case errors.As(err, &stalled):
		return ctrl.Result{}, reconcile.TerminalError(err)
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: jitter(conflictDelay)}, nil
	default:
		return ctrl.Result{}, err
	}
}

// jitter adds up to a fifth, so that many waiters do not come back at once.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/5+1) //nolint:gosec // spreads load, hides nothing
}
