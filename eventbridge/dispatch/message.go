package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// Message is one delivery of one stored event. It can be the key of a map.
type Message interface {
	// Event decodes the event as its publisher wrote it.
	Event() (cloudevent.Event, error)
	// Attempt counts from 1. What was returned is no attempt.
	Attempt() int
	History
	Settlement
	Hold
}

// History is what the store knows of an event.
type History interface {
	// Subject is what the event was published under.
	Subject() string
	// Stored is when the event was stored first.
	Stored() time.Time
	// Waiting is since when the event waits for its Subscription: since it was stored first, or redriven last.
	Waiting() time.Time
	// Pending is how many more messages of the Subscription waited at the delivery.
	Pending() uint64
}

// Settlement is what is said of a delivery. Exactly one of Ack, Retry, Return and Reject settles it.
type Settlement interface {
	// Ack says that the event is delivered.
	Ack(ctx context.Context) error
	// Retry asks for another attempt after the delay. Until then the event counts for no limit.
	Retry(ctx context.Context, delay time.Duration) error
	// Return asks for the same attempt after the delay, because this one has not begun or says nothing.
	Return(ctx context.Context, delay time.Duration) error
	// StoreDeadLetter returns after the event is kept as a dead letter; the message still has to be rejected. Storing the
	// dead letter of the same message again stores no second one.
	StoreDeadLetter(ctx context.Context, deadLetter DeadLetter) error
	// Reject ends the event's life for this Subscription.
	Reject(ctx context.Context, reason string) error
}

// Hold is what keeps a message from being delivered again before it is settled.
type Hold interface {
	// Extend restarts the message's AckWait. It may run at the same time as any settlement.
	Extend(ctx context.Context) error
	// Detach has the message count for no limit and need no Extend from now on, for as long as its call takes. It is settled
	// as before; when that does not happen within the time that is given, the event is delivered again, as the same attempt.
	// After an error all is as it was. Only Extend may run at the same time.
	Detach(ctx context.Context, within time.Duration) error
	// Release is called once, when the message is not used any more, whatever became of it.
	Release()
}

// Source hands out the Subscription's messages.
type Source interface {
	// Receive calls each with messages as they come, one call at a time, until ctx ends or stop is closed; then it
	// returns nil, and what comes later is delivered to another replica. After an error it may be called again. A source
	// that keeps messages in order also returns nil when another replica takes over their ownership.
	Receive(ctx context.Context, stop <-chan struct{}, each func(Message)) error
}

// Filter picks from the events.
type Filter interface {
	// Match reports whether the event is to be delivered. ErrNotFiltered means that the filter did not run, because
	// deliveries end; any other error that it can never decide about this event.
	Match(ev *cloudevent.Event) (bool, error)
}

// PromptFilter is a Filter whose Match may wait in a queue.
type PromptFilter interface {
	Filter

	// MatchSoon is Match without a long wait in that queue, which would keep a flood of events from being given up. It
	// returns ErrNotFiltered where Match would wait.
	MatchSoon(ev *cloudevent.Event) (bool, error)
}

// Gate reports whether the sink can take deliveries.
type Gate interface {
	// Wait blocks until it can. The channel it returns is closed as soon as the sink no longer can. The
	// only error is that of ctx.
	Wait(ctx context.Context) (closed <-chan struct{}, err error)
}

// Quota bounds how many events may wait.
type Quota interface {
	// Wait blocks until there are too many. The channel it returns is closed when there are no longer. The only error is
	// that of ctx.
	Wait(ctx context.Context) (within <-chan struct{}, err error)
	// Over reports whether a message is one of those that are too many.
	Over(msg Message) bool
}

// Sink sends an event to its receiver.
type Sink interface {
	// Send returns an error when there was no answer: ErrSinkGone when the event cannot have reached the
	// sink, ErrUnsendable when it never will.
	Send(ctx context.Context, ev *cloudevent.Event) (Answer, error)
}

// Tracer makes a span of each attempt.
type Tracer interface {
	// Deliver begins one, and has the event carry it on to the sink. The sink's status, 0 without an answer, and what
	// becomes of the event end it.
	Deliver(ctx context.Context, subscription string, attempt int, ev *cloudevent.Event) (end func(status int, outcome string))
}

// Chain bounds what an event causes, one thing by the other. stored is when the event was stored that is delivered.
type Chain interface {
	// Carry gives an event that is sent what its sink shows when it publishes itself, so that it is known what has caused that.
	Carry(stored time.Time, ev *cloudevent.Event)
	// Extend makes a reply the next event of the chain of its cause, and returns false when the chain may have no more.
	Extend(stored time.Time, cause, reply *cloudevent.Event) bool
	// Count is called when the reply is stored.
	Count(stored time.Time, cause *cloudevent.Event)
}

// Answer is what a sink said.
type Answer struct {
	Status     int               // HTTP status
	RetryAfter time.Duration     // what the sink asked for, 0 when it did not
	Excerpt    string            // start of the body of an answer that is no success
	Started    time.Time         // when the request went out; exact only where deliveries are logged
	Reply      *cloudevent.Event // the event that a successful answer is; nil for none
	ReplyError error             // why an answer that ought to be an event is none
	Release    func()            // to be called when the reply is no longer held; nil for nothing to do
}

// release lets go of the reply.
func (a *Answer) release() {
	a.Reply = nil
	if a.Release != nil {
		a.Release()
		a.Release = nil
	}
}

// DeadLetter says why an event is not delivered any more.
type DeadLetter struct {
	Reason   failure.Reason
	Attempts int    // how often delivery was tried
	Status   int    // the last answer's status, 0 when there was none
	Excerpt  string // start of the last answer's body
}

var (
	// ErrSinkGone is returned by Sink.Send when no endpoint of the sink could be reached.
	ErrSinkGone = errors.New("sink has no reachable endpoint")
	// ErrUnsendable is returned by Sink.Send when the event does not fit into a request.
	ErrUnsendable = errors.New("event cannot be written as a request")
	// ErrNotFiltered is returned by Filter.Match when deliveries end before the filter could run, and by MatchSoon when it
	// could not run soon.
	ErrNotFiltered = errors.New("the filter was not asked")
)
