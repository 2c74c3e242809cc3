package eventbridge

import (
	"net/url"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// storedRecord is that of an event which the stream has confirmed just now.
func storedRecord(ev *cloudevent.Event, began time.Time) journal.Record {
	now := time.Now()
	r := journal.Record{Time: now, Kind: journal.Stored, Began: began, Took: now.Sub(began)}
	identify(&r, ev)
	return r
}

// recorder adds what becomes of one route's events to the journal; nil without one.
func (d *deliveries) recorder(route routing.Route) func(dispatch.Message, dispatch.Settled) {
	if d.deps.Journal == nil {
		return nil
	}
	to := journal.Record{
		Namespace: route.Subscription.Namespace, Subscription: route.Subscription.Name,
		Sink: sinkName(route), DeadLetter: route.OfDeadLetters,
	}
	return func(msg dispatch.Message, s dispatch.Settled) {
		if r, ok := settledRecord(to, s); ok {
			r.Stored = msg.Stored()
			d.deps.Journal.Add(r)
		}
	}
}

// settledRecord completes the record of a delivery. What was returned has not happened.
func settledRecord(r journal.Record, s dispatch.Settled) (journal.Record, bool) {
	r.Time, r.Began, r.Took = s.Began.Add(s.Took), s.Began, s.Took
	r.Attempt, r.Status = s.Attempt, s.Status
	r.Reason, r.Message = string(s.Reason), s.Reason.Message()
	switch s.Outcome {
	case dispatch.Ack:
		r.Kind = journal.Delivered
	case dispatch.Skip:
		r.Kind, r.Attempt = journal.Filtered, 0
	case dispatch.Retry:
		due := r.Time.Add(s.Delay)
		r.Kind, r.Due = journal.Retry, &due
	case dispatch.Reject:
		r.Kind = journal.DeadLettered
	default:
		return r, false
	}
	if s.Event != nil {
		identify(&r, s.Event)
	}
	return r, true
}

func identify(r *journal.Record, ev *cloudevent.Event) {
	r.ID, r.Source, r.Type = ev.ID, ev.Source, ev.Type
	r.Cause, r.Trace = ev.Extension(dispatch.ExtensionCause), tracecontext.ID(ev)
}

// sinkName is how a record names a sink: never with a login.
func sinkName(route routing.Route) string {
	if !route.External {
		return route.Service.String()
	}
	u, err := url.Parse(route.Sink)
	if err != nil {
		return ""
	}
	return u.Host
}
