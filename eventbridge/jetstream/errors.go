package jetstream

import (
	"errors"

	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/internal/broker"
)

// mappedError is an error of the broker that its caller knows as another. It reads as the broker wrote it.
type mappedError struct{ broker, known error }

// Error implements error.
func (e *mappedError) Error() string { return e.broker.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *mappedError) Unwrap() []error { return []error{e.known, e.broker} }

// mapping is an error of the broker and the one by which a caller knows it.
type mapping struct{ broker, known error }

// publishError maps an error of the publisher. The first that fits counts.
func publishError(err error) error {
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*broker.InvalidEventError](err); ok {
		return &mappedError{err, &ingress.InvalidEventError{Reason: invalid.Reason}}
	}
	for _, m := range []mapping{
		{broker.ErrTooLarge, ingress.ErrTooLarge},
		{broker.ErrBusy, ingress.ErrBusy},
		{broker.ErrNotConnected, ingress.ErrNotConnected},
		{broker.ErrStorageFull, ingress.ErrStorageFull},
		{broker.ErrNoStream, ingress.ErrNoStream},
		{broker.ErrInsufficientResources, ingress.ErrInsufficientResources},
		{broker.ErrInProcess, ingress.ErrInProcess},
		{broker.ErrTimeout, ingress.ErrTimeout},
	} {
		if errors.Is(err, m.broker) {
			return &mappedError{err, m.known}
		}
	}
	if answer, ok := errors.AsType[*broker.APIError](err); ok {
		return &mappedError{err, &ingress.StatusError{Status: answer.Code, Reason: answer.Description}}
	}
	return err
}
