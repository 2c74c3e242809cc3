package ingress

import "errors"

// Errors of a Publisher that answers distinguish. The text of each is what the sender of the event reads.
var (
	// ErrTooLarge means that the event is larger than the store takes.
	ErrTooLarge = errors.New("event is larger than the stream takes")
	// ErrBusy means that too many events wait for their confirmation already.
	ErrBusy = errors.New("too many events wait to be stored")
	// ErrNotConnected means that the store cannot be reached now.
	ErrNotConnected = errors.New("no connection to NATS JetStream server")
	// ErrStorageFull means that the store has no space for the event.
	ErrStorageFull = errors.New("insufficient resources on target stream")
	// ErrNearlyFull means that the free storage is reserved for stored events that come back.
	ErrNearlyFull = errors.New("the stream is nearly full and takes no new events until stored ones are delivered")
	// ErrNoStream means that there is no stream that takes the event.
	ErrNoStream = errors.New("cannot send to stream")
	// ErrInsufficientResources means that the server has less storage than the event needs.
	ErrInsufficientResources = errors.New("the account or the server of NATS has no room for more")
	// ErrInProcess means that the same event was published before and is not stored yet.
	ErrInProcess = errors.New("an earlier publish of the same event is still being stored")
	// ErrTimeout means that no answer came in time, so that it is not known whether the event is stored.
	ErrTimeout = errors.New("no answer from the stream in time")
)

// InvalidEventError is a Publisher's error for an event that cannot be stored, with a reason for its sender.
type InvalidEventError struct{ Reason string }

// Error returns the reason as it is.
func (e *InvalidEventError) Error() string { return e.Reason }

// StatusError is a Publisher's error for an answer of the store that has a status of its own.
type StatusError struct {
	Status int // like that of HTTP
	Reason string
}

// Error returns the reason as it is.
func (e *StatusError) Error() string { return e.Reason }
