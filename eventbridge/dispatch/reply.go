package dispatch

import (
	"context"
	"errors"
	"strconv"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Extensions by which a chain of events can be followed.
const (
	// ExtensionHops counts the events between the first of a chain and this one.
	ExtensionHops = "rousehops"
	// ExtensionCause is the id of the event whose delivery brought this one forth.
	ExtensionCause = "rousecause"

	extensionTrace = "traceparent"
)

// ErrUnpublishable is returned by Replies for an event that will never be stored, as it is no valid one.
var ErrUnpublishable = errors.New("reply cannot be published")

// Replies publishes the events that sinks answer with.
type Replies interface {
	// Publish returns nil after the reply is stored, and ErrUnpublishable for one that never will be.
	Publish(ctx context.Context, reply *cloudevent.Event) error
}

// publishReply publishes what the sink replied. The event counts as delivered when its reply is stored, or never can be.
func (d *Dispatcher) publishReply(ctx context.Context, msg Message, cause *cloudevent.Event, answer Answer) result {
	switch {
	case d.Replies == nil || (answer.Reply == nil && answer.ReplyError == nil):
		return delivered
	case answer.ReplyError != nil:
		d.ignoreReply(cause, answer.ReplyError)
		return delivered
	}
	if over := d.extendChain(msg, cause, answer.Reply); over != delivered {
		return over
	}
	err := d.Replies.Publish(ctx, answer.Reply)
	switch {
	case err == nil:
		if d.Chain != nil {
			d.Chain.Count(msg.Stored(), cause)
		}
		d.metrics.replies.Inc()
		return delivered
	case errors.Is(err, ErrUnpublishable):
		d.ignoreReply(cause, err)
		return delivered
	case ctx.Err() != nil:
		return interrupted
	default:
		d.Log.Error(err, "cannot publish a reply, the event is delivered again", "id", cause.ID)
		return failed
	}
}

// extendChain makes a reply the next event of its cause's chain, unless that is as long or as large as it may be.
func (d *Dispatcher) extendChain(msg Message, cause, reply *cloudevent.Event) result {
	hops := Hops(cause)
	if hops >= d.options.MaxHops {
		return looping
	}
	if d.Chain != nil && !d.Chain.Extend(msg.Stored(), cause, reply) {
		return exhausted
	}
	reply.SetExtension(ExtensionHops, strconv.Itoa(hops+1))
	reply.SetExtension(ExtensionCause, cause.ID)
	if parent := cause.Extension(extensionTrace); parent != "" && reply.Extension(extensionTrace) == "" {
		reply.SetExtension(extensionTrace, parent)
	}
	return delivered
}

// Hops returns how many events come before one in its chain, and 0 for what is no number.
func Hops(ev *cloudevent.Event) int {
	text := ev.Extension(ExtensionHops)
	if text == "" {
		return 0 // without an error that is allocated for each event
	}
	hops, _ := strconv.ParseInt(text, 10, 32) // the largest there is, if it is larger
	return max(int(hops), 0)
}

func (d *Dispatcher) ignoreReply(cause *cloudevent.Event, err error) {
	d.metrics.replyErrors.Inc()
	d.Log.Info("a reply of the sink is no valid event and is ignored", "id", cause.ID, "reason", err.Error())
}
