package jetstream

import (
	"errors"

	"github.com/rouse-run/rouse/eventbridge/admin"
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

// The first that fits counts.
var (
	ingressErrors = []mapping{
		{broker.ErrTooLarge, ingress.ErrTooLarge},
		{broker.ErrBusy, ingress.ErrBusy},
		{broker.ErrNotConnected, ingress.ErrNotConnected},
		{broker.ErrStorageFull, ingress.ErrStorageFull},
		{broker.ErrNoStream, ingress.ErrNoStream},
		{broker.ErrInsufficientResources, ingress.ErrInsufficientResources},
		{broker.ErrInProcess, ingress.ErrInProcess},
		{broker.ErrTimeout, ingress.ErrTimeout},
	}
	adminErrors = []mapping{
		{broker.ErrDeadLetterNotFound, admin.ErrNotFound},
		{broker.ErrConsumerNotFound, admin.ErrNoConsumer},
		{broker.ErrStorageFull, admin.ErrStorageFull},
		{broker.ErrNotConnected, admin.ErrUnavailable},
		{broker.ErrNoStream, admin.ErrUnavailable},
		{broker.ErrTimeout, admin.ErrUnavailable},
		{broker.ErrBusy, admin.ErrUnavailable},
	}
)

// publishError maps an error of the publisher.
func publishError(err error) error {
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*broker.InvalidEventError](err); ok {
		return &mappedError{err, &ingress.InvalidEventError{Reason: invalid.Reason}}
	}
	if known := find(ingressErrors, err); known != nil {
		return &mappedError{err, known}
	}
	if answer, ok := errors.AsType[*broker.APIError](err); ok {
		return &mappedError{err, &ingress.StatusError{Status: answer.Code, Reason: answer.Description}}
	}
	return err
}

// adminError maps an error of what the admin API asks for.
func adminError(err error) error {
	if known := find(adminErrors, err); known != nil {
		return &mappedError{err, known}
	}
	return err
}

// find is nil when none fits.
func find(mappings []mapping, err error) error {
	for _, m := range mappings {
		if errors.Is(err, m.broker) {
			return m.known
		}
	}
	return nil
}
