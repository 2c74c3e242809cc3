package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// Message is one delivery of a stored event. It is comparable.
type Message interface {
	// Event decodes the event as published.
	Event() (cloudevent.Event, error)
	// Attempt counts from 1. A returned delivery does not count.
	Attempt() int
	History
	Settlement
	Hold
}

// History is what the store records about an event.
type History interface {
	// Subject returns the subject that the event was published to.
	Subject() string
	// Stored returns when the event was first stored.
	Stored() time.Time
	// Waiting returns since when the event waits for its Subscription: when it was first stored or last redriven.
	Waiting() time.Time
	// Pending returns how many messages of the Subscription waited behind this one.
	Pending() uint64
}

// Settlement ends a delivery. Exactly one of Ack, Retry, Return and Reject settles it.
type Settlement interface {
	// Ack marks the event as delivered.
	Ack(ctx context.Context) error
	// Retry schedules another attempt after the delay. Until then the event counts for no limit.
	Retry(ctx context.Context, delay time.Duration) error
	// Return schedules the same attempt after the delay, because this one has not begun or was inconclusive.
	Return(ctx context.Context, delay time.Duration) error
	// StoreDeadLetter returns after the dead letter is stored; the message still has to be rejected. It is idempotent.
	StoreDeadLetter(ctx context.Context, deadLetter DeadLetter) error
	// Reject ends the event for this Subscription.
	Reject(ctx context.Context, reason string) error
}

// Hold prevents the redelivery of a message before it is settled.
type Hold interface {
	// Extend restarts the message's AckWait. It may run concurrently with any settlement.
	Extend(ctx context.Context) error
	// Detach excludes the message from limits and from Extend while its call continues. It is settled as before; if
	// that does not happen within the given time, the event is redelivered as the same attempt. After an error nothing
	// has changed. Only Extend may run concurrently.
	Detach(ctx context.Context, within time.Duration) error
	// Release is called once, when the message is no longer used, whatever its outcome.
	Release()
}

// Source delivers the Subscription's messages.
type Source interface {
	// Receive calls each for every message, one call at a time, until ctx ends or stop is closed, and then returns nil;
	// later messages go to another replica. After an error it may be called again. An ordered source also returns nil
	// when another replica takes over the ownership.
	Receive(ctx context.Context, stop <-chan struct{}, each func(Message)) error
}

// Filter selects events.
type Filter interface {
	// Match reports whether the event is to be delivered. ErrNotFiltered means that the filter did not run because
	// deliveries end; any other error means that it can never decide about this event.
	Match(ev *cloudevent.Event) (bool, error)
}

// PromptFilter is a Filter whose Match may wait in a queue.
type PromptFilter interface {
	Filter

	// MatchSoon is Match without a long wait in that queue, which would delay dead-lettering a flood of events. It
	// returns ErrNotFiltered where Match would wait.
	MatchSoon(ev *cloudevent.Event) (bool, error)
}

// Gate reports whether the sink accepts deliveries.
type Gate interface {
	// Wait blocks until the sink accepts deliveries. It returns a channel that is closed when it no longer does. It
	// fails only when ctx ends.
	Wait(ctx context.Context) (closed <-chan struct{}, err error)
}

// Quota bounds the number of waiting events.
type Quota interface {
	// Wait blocks until the quota is exceeded. It returns a channel that is closed when it no longer is. It fails only
	// when ctx ends.
	Wait(ctx context.Context) (within <-chan struct{}, err error)
	// Over reports whether a message exceeds the quota.
	Over(msg Message) bool
}

// Sink sends an event to its receiver.
type Sink interface {
	// Send returns an error when there was no answer: ErrSinkGone when the event cannot have reached the sink, and
	// ErrUnsendable when it never can.
	Send(ctx context.Context, ev *cloudevent.Event) (Answer, error)
}

// Tracer creates a span for each attempt.
type Tracer interface {
	// Deliver begins a span whose context the event carries to the sink. end takes the sink's status, 0 without an
	// answer, and the outcome.
	Deliver(ctx context.Context, subscription string, attempt int, ev *cloudevent.Event) (end func(status int, outcome string))
}

// Chain bounds the events that one event causes directly or indirectly. stored is when the delivered event was stored.
type Chain interface {
	// Carry adds the pass with which the sink can publish events that this one caused.
	Carry(stored time.Time, ev *cloudevent.Event)
	// Extend makes a reply the next event of the chain of its cause, and returns false when the chain is at its limit.
	Extend(stored time.Time, cause, reply *cloudevent.Event) bool
	// Count counts a stored reply.
	Count(stored time.Time, cause *cloudevent.Event)
}

// Answer is the response of a sink.
type Answer struct {
	Status     int               // HTTP status
	RetryAfter time.Duration     // requested by the sink, 0 if not
	Excerpt    string            // start of the body of an unsuccessful answer
	Started    time.Time         // when the request was sent; exact only where deliveries are logged
	Reply      *cloudevent.Event // the event in a successful answer; nil without one
	ReplyError error             // why a reply is not a valid event
	Release    func()            // releases the reply's memory; may be nil
}

// release releases the reply.
func (a *Answer) release() {
	a.Reply = nil
	if a.Release != nil {
		a.Release()
		a.Release = nil
	}
}

// DeadLetter describes why an event is no longer delivered.
type DeadLetter struct {
	Reason   failure.Reason
	Attempts int    // number of attempts
	Status   int    // of the last answer, 0 without an answer
	Excerpt  string // start of the last answer's body
}

var (
	// ErrSinkGone is returned by Sink.Send when no endpoint of the sink could be reached.
	ErrSinkGone = errors.New("sink has no reachable endpoint")
	// ErrUnsendable is returned by Sink.Send when the event does not fit into a request.
	ErrUnsendable = errors.New("event cannot be written as a request")
	// ErrNotFiltered is returned by Filter.Match when deliveries end before the filter could run, and by MatchSoon when it
	// could not run soon.
	ErrNotFiltered = errors.New("the filter did not run")
)
