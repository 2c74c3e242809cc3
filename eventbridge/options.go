package eventbridge

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/doors"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/eventbridge/timers"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/tracing"
)

// Options configures a Bridge and its parts.
type Options struct {
	Listen         string        // address of the publish endpoint and of health probes
	MetricsAddress string        // address of the metrics
	ShutdownDelay  time.Duration // between failing readiness and refusing events
	DrainTimeout   time.Duration // bounds requests that are in progress when the process stops
	Ingress        ingress.Options
	Timers         timers.Options
	Doors          doors.Options
	DoorAddress    string               // at which gateways pass on requests to Doors
	Gateway        types.NamespacedName // ServiceAccount of the gateways; empty: there are no Doors
	Storage        quota.StorageOptions
	Quota          quota.Options
	Dispatch       dispatch.Options
	Sink           sink.Options
	Sinks          routing.Policy // where events may go, and who may subscribe and publish
	Tracing        tracing.Options
	Admin          admin.Options
	Service        types.NamespacedName // Service of all replicas; empty for a single one
	DeliveryBytes  int64                // memory for events in delivery
	ChainKeyFile   string               // file of the key, read by the caller; empty for a random key
	JournalEvents  int                  // size of the Journal, which the caller creates; 0 disables it
}

// defaultJournalEvents take about 8 MiB, and 50 MiB when all their strings have the maximum length.
const defaultJournalEvents = 20_000

// DefaultOptions returns the defaults of a replica in a cluster.
func DefaultOptions() Options {
	return Options{
		Listen:         ":8080",
		MetricsAddress: ":9090",
		ShutdownDelay:  5 * time.Second,
		DrainTimeout:   10 * time.Second,
		Ingress:        ingress.DefaultOptions(),
		Timers:         timers.DefaultOptions(),
		Doors:          doors.DefaultOptions(),
		DoorAddress:    ":8082",
		Storage:        quota.DefaultStorageOptions(),
		Quota:          quota.DefaultOptions(),
		Dispatch:       dispatch.DefaultOptions(),
		Sink:           sink.DefaultOptions(),
		Tracing:        tracing.DefaultOptions(),
		Admin:          admin.DefaultOptions(),
		DeliveryBytes:  defaultDeliveryBytes,
		JournalEvents:  defaultJournalEvents,
	}
}

// Flags declares the flags of the bridge and its parts.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.Listen, "listen", "address that events are published to; also /healthz and /readyz")
	fs.String(&o.MetricsAddress, "metrics-address", "address of /metrics")
	fs.Duration(&o.ShutdownDelay, "shutdown-delay", "how long events are still accepted after the signal to stop").AtLeast(0)
	fs.Duration(&o.DrainTimeout, "request-drain-timeout", "how long requests that are in progress then may take").MoreThan(0)
	fs.Int(&o.JournalEvents, "journal-events", "number of records of what happened to events that the admin API can show; 0: none").AtLeast(0)
	fs.String(&o.ChainKeyFile, "chain-key-file",
		"file with the secret by which replicas recognize each other's deliveries when sinks publish; empty: each recognizes only its own")
	fs.Service(&o.Service, "service", "Service of the bridges, namespace/name, whose endpoints divide the limits of deliveries; "+
		"empty: this is the only bridge")
	fs.Int64(&o.DeliveryBytes, "delivery-max-bytes",
		"memory in bytes for events that are being delivered. Each takes three times its size and 16 KiB; large replies take half as much "+
			"in addition, and each Subscription has 64 KiB of its own").AtLeast(leastDeliveryBytes)
	fs.String(&o.DoorAddress, "door-address", "address at which gateways pass on requests to Doors").NotEmpty()
	fs.Service(&o.Gateway, "gateway-account", "ServiceAccount of the gateways, namespace/name; empty: there are no Doors")
	fs.Add(&o.Ingress, &o.Timers, &o.Doors, &o.Storage, &o.Quota, &o.Dispatch, &o.Sink, &o.Sinks, &o.Tracing, &o.Admin)
}

// Retries is the default retry policy of Subscriptions without one. Zero values leave the options' values.
type Retries struct {
	MaxAttempts         int
	Backoff, MaxBackoff time.Duration
}

// SetRetries changes the policy for all attempts that end from now on.
func (b *Bridge) SetRetries(r Retries) { b.dispatchers.retries.Store(&r) }

// retriesOf returns a function that returns the current policy of a route.
func (d *dispatchers) retriesOf(own routing.Delivery) func() (int, dispatch.Backoff) {
	return func() (int, dispatch.Backoff) {
		o := d.options.Dispatch
		if r := d.retries.Load(); r != nil {
			o = r.over(o)
		}
		o = dispatchOptions(o, own)
		return o.MaxAttempts, o.Backoff
	}
}

// over returns o with the policy's values. When a wait exceeds its maximum, the wait wins.
func (r Retries) over(o dispatch.Options) dispatch.Options {
	if r.MaxAttempts > 0 {
		o.MaxAttempts = r.MaxAttempts
	}
	if r.MaxBackoff > 0 {
		o.Backoff.Max = r.MaxBackoff
	}
	if r.Backoff > 0 {
		o.Backoff.Base = r.Backoff
	}
	o.Backoff.Max = max(o.Backoff.Max, o.Backoff.Base)
	return o
}

// dispatchOptions returns the process's options overridden by the Subscription's.
func dispatchOptions(o dispatch.Options, own routing.Delivery) dispatch.Options {
	if own.MaxAttempts > 0 {
		o.MaxAttempts = own.MaxAttempts
	}
	o.Backoff = backoffOf(o.Backoff, own.Backoff)
	o.EventsPerSecond = own.EventsPerSecond
	o.OrderedBy = own.OrderedBy
	o.TTL = own.TTL
	if own.Timeout > 0 {
		o.Timeout = own.Timeout
	}
	return o
}

func backoffOf(b dispatch.Backoff, own routing.Backoff) dispatch.Backoff {
	switch own.Policy {
	case eventingv1alpha2.BackoffLinear:
		b.Growth = dispatch.Linear
	case eventingv1alpha2.BackoffConstant:
		b.Growth = dispatch.Constant
	case eventingv1alpha2.BackoffExponential:
		b.Growth = dispatch.Exponential
	}
	if own.Delay > 0 {
		b.Base = own.Delay
		b.Max = max(b.Max, own.Delay)
	}
	if own.MaxDelay > 0 {
		b.Max = own.MaxDelay
		b.Base = min(b.Base, own.MaxDelay)
	}
	return b
}
