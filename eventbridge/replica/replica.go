package replica

import (
	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/flags"
)

// Options configures a bridge and its stream.
type Options struct {
	Bridge    eventbridge.Options
	Publisher broker.PublisherOptions
}

// DefaultOptions returns the defaults of a replica in a cluster, which are the chart's values.
func DefaultOptions() Options {
	return Options{Bridge: eventbridge.DefaultOptions(), Publisher: broker.DefaultPublisherOptions()}
}

// Flags declares the flags of the bridge and of its stream.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.Publisher.Stream, "stream-name", "JetStream stream that holds the events")
	fs.Add(&o.Bridge, &o.Publisher)
}

// New returns a bridge that stores events through conn. It creates the stores of deps, and the journal and the admin
// store unless deps has them.
func New(conn *broker.Conn, deps eventbridge.Deps, o Options) *eventbridge.Bridge {
	// The events of a batch wait for their confirmations together, so a larger batch would never fit.
	o.Bridge.Ingress.MaxBatchEvents = min(o.Bridge.Ingress.MaxBatchEvents, o.Publisher.MaxPending)
	o.Bridge.Ingress.MaxPending = o.Publisher.MaxPending
	o.Publisher.MaxPendingBytes = o.Bridge.Ingress.MaxBytesInFlight
	publisher := broker.NewPublisher(conn, o.Publisher)
	publisher.ExpectEvents(o.Bridge.Ingress.MaxRequestSize)
	store := jetstream.NewStore(conn, publisher, o.Publisher.Stream)
	if deps.Journal == nil {
		deps.Journal = journal.New(o.Bridge.JournalEvents)
	}
	deps.Store, deps.Storage, deps.Quota, deps.Woken = store, store, store, conn
	deps.Timers, deps.TimerID = jetstream.NewTimerStore(conn, publisher), broker.NewBeatID()
	deps.DoorStore = jetstream.NewDoorStore(conn)
	if deps.Admin == nil {
		deps.Admin = jetstream.NewAdminStore(conn, o.Publisher.Stream, deps.Journal)
	}
	return eventbridge.New(deps, o.Bridge)
}
