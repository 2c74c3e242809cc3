package failure

import (
	"errors"
	"fmt"
)

// Errors of the store of events, which the ingress, the admin API and the controller distinguish.
var (
	// ErrNotConnected means that there is no connection to NATS at present.
	ErrNotConnected = errors.New("not connected to NATS")
	// ErrNoStream means that the stream does not exist or does not accept the event.
	ErrNoStream = errors.New("no stream answers")
	// ErrStorageFull means that the stream cannot store more.
	ErrStorageFull = errors.New("stream storage is full")
	// ErrNearlyFull means that the remaining storage is reserved for events that are already stored and come back.
	ErrNearlyFull = errors.New("the stream is nearly full and takes no new events until stored ones are delivered")
	// ErrInsufficientResources means that the server or its account has less storage than a stream or an event needs.
	ErrInsufficientResources = errors.New("the NATS server lacks resources for the stream")
	// ErrTooLarge means that a message is larger than the server accepts.
	ErrTooLarge = errors.New("message is too large")
	// ErrTimeout means that the server did not answer in time, so that the result of the request is unknown.
	ErrTimeout = errors.New("no answer from NATS in time")
	// ErrBusy means that too many events await their confirmation.
	ErrBusy = errors.New("too many events wait to be stored")
	// ErrInProcess means that an earlier publish of the same event is not confirmed yet, so that its result is unknown.
	ErrInProcess = errors.New("an earlier publish of the same event is still being stored")
	// ErrConsumerNotFound means that the server has no consumer of that name.
	ErrConsumerNotFound = errors.New("consumer not found")
	// ErrDeadLetterNotFound means that there is no dead letter with that sequence.
	ErrDeadLetterNotFound = errors.New("there is no such dead letter")
	// ErrDataNotEditable means that a dead letter is no event, or that its data are not JSON.
	ErrDataNotEditable = errors.New("the data of this dead letter are not JSON, so they cannot be replaced")
	// ErrOvertaken means that another process has stored a later cursor of a Schedule.
	ErrOvertaken = errors.New("another process has stored a later cursor of the Schedule")
	// ErrDelayedOtherwise means that the same event waits already, for another time.
	ErrDelayedOtherwise = errors.New("the same event waits for another time: cancel that first")
	// ErrNoDelayed means that no such event waits: it was published, cancelled, or never there.
	ErrNoDelayed = errors.New("no such event waits")
	// ErrDelayedShare means that so much waits of a namespace that no more is taken.
	ErrDelayedShare = errors.New("the namespace has as many delayed events as it leaves to others")
)

// InvalidEventError means that an event cannot be published, with a reason for its publisher.
type InvalidEventError struct{ Reason string }

// Error returns the reason.
func (e *InvalidEventError) Error() string { return e.Reason }

// APIError is an error response of JetStream without an error of its own above.
type APIError struct {
	Code        int // similar to an HTTP status
	ErrorCode   int // JetStream's number
	Description string
}

// Error returns JetStream's description with both numbers.
func (e *APIError) Error() string {
	return fmt.Sprintf("JetStream: %s (code %d, error %d)", e.Description, e.Code, e.ErrorCode)
}
