package replica

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/broker"
)

// Options of a bridge and of its stream.
type Options struct {
	Bridge    eventbridge.Options
	Publisher broker.PublisherOptions
}

// DefaultOptions are those of a replica in a cluster, and the chart's values.
func DefaultOptions() Options {
	return Options{Bridge: eventbridge.DefaultOptions(), Publisher: broker.DefaultPublisherOptions()}
}

// BindFlags adds the flags of the bridge and of its stream.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Publisher.Stream, "stream-name", o.Publisher.Stream, "JetStream stream that holds the events")
	o.Bridge.BindFlags(fs)
	o.Publisher.BindFlags(fs)
}

// Validate reports everything that is wrong.
func (o *Options) Validate() error { return errors.Join(o.Bridge.Validate(), o.Publisher.Validate()) }

// New makes the bridge that keeps its events where conn leads to. All that deps says of a store is made here, and so
// are journal and admin store unless deps has them.
func New(conn *broker.Conn, deps eventbridge.Deps, o Options) *eventbridge.Bridge {
	// The events of a batch wait together, so a larger batch would never fit.
	o.Bridge.Ingress.MaxBatchEvents = min(o.Bridge.Ingress.MaxBatchEvents, o.Publisher.MaxPending)
	o.Bridge.Ingress.MaxPending = o.Publisher.MaxPending
	o.Publisher.MaxPendingBytes = o.Bridge.Ingress.MaxBytesInFlight
	publisher := broker.NewPublisher(conn, o.Publisher)
	publisher.ExpectEvents(o.Bridge.Ingress.MaxRequestSize)
	store := jetstream.NewStore(conn, publisher, o.Publisher.Stream)
	if deps.Journal == nil {
		deps.Journal = journal.New(o.Bridge.JournalEvents)
	}
	deps.Store, deps.Storage, deps.Quota = store, store, store
	if deps.Admin == nil {
		deps.Admin = jetstream.NewAdminStore(conn, o.Publisher.Stream, deps.Journal)
	}
	return eventbridge.New(deps, o.Bridge)
}
