package quota

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/flags"
)

// Options bound the share of the stream that one namespace may hold.
type Options struct {
	Share float64 // share of the stream's bytes and of its events of one type; 0 and 1 disable the quota
}

// DefaultOptions leaves half of the stream to the other namespaces.
func DefaultOptions() Options { return Options{Share: 0.5} }

// Flags declares --quota-share.
func (o *Options) Flags(fs *flags.Set) {
	fs.Float64(&o.Share, "quota-share",
		"share of the stream of events that the Subscriptions of one namespace may keep; what goes over it becomes dead letters; 0 or 1: all").
		Between(0, 1)
}

func (o *Options) enabled() bool { return o.Share > 0 && o.Share < 1 }

// relief is the part of its share that a namespace over quota is reduced to, so that it does not exceed the share again
// at once.
const relief = 0.9

// Amount is a number of events and their bytes.
type Amount struct {
	Events uint64
	Bytes  int64
}

// Held is the backlog of a Subscription and the kind of its consumer.
type Held struct {
	Subscription types.NamespacedName
	UID          types.UID // of the Subscription that the consumer was made for
	Ordered      bool      // the consumer delivers in order
	Amount
}

// allowances returns how many pending events each Subscription may have in the namespaces that exceed their share. A
// Subscription without an entry is not limited.
func allowances(all []Held, share Amount) map[types.NamespacedName]uint64 {
	kept := map[string]Amount{}
	for _, held := range all {
		sum := kept[held.Subscription.Namespace]
		sum.Events += held.Events
		sum.Bytes += held.Bytes
		kept[held.Subscription.Namespace] = sum
	}
	allowed := map[types.NamespacedName]uint64{}
	if len(kept) < 2 {
		return allowed
	}
	for _, held := range all {
		sum := kept[held.Subscription.Namespace]
		if sum.Events <= share.Events && sum.Bytes <= share.Bytes {
			continue
		}
		keep := relief * min(part(float64(share.Events), float64(sum.Events)), part(float64(share.Bytes), float64(sum.Bytes)))
		allowed[held.Subscription] = uint64(keep * float64(held.Events))
	}
	return allowed
}

func part(share, sum float64) float64 {
	if sum <= share {
		return 1
	}
	return share / sum
}

// Limit bounds the number of pending events of one Subscription.
type Limit struct {
	mu      sync.Mutex
	limited bool
	allowed uint64
	changed chan struct{} // closed and replaced when limited changes
}

func newLimit() *Limit { return &Limit{changed: make(chan struct{})} }

// Wait blocks until there is a limit and returns a channel that is closed when the limit is lifted. It fails only when
// ctx ends.
func (l *Limit) Wait(ctx context.Context) (<-chan struct{}, error) {
	for {
		l.mu.Lock()
		limited, changed := l.limited, l.changed
		l.mu.Unlock()
		if limited {
			return changed, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// Over reports whether an event with this many events behind it exceeds the limit.
func (l *Limit) Over(behind uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limited && behind >= l.allowed
}

func (l *Limit) set(allowed uint64, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowed = allowed
	if l.limited != limited {
		l.limited = limited
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

const (
	// interval is the pause between two polls, and rest the pause after a poll that read bytes.
	interval = time.Second
	rest     = 5 * time.Second
	// pollTimeout bounds one poll.
	pollTimeout = 30 * time.Second
)

// Use is the usage of a stream and its bounds.
type Use struct {
	Amount
	Max Amount // Events bounds one type; 0 means no bound
}

// Stream reports what the stream of events holds.
type Stream interface {
	// Use sends one request.
	Use(ctx context.Context) (Use, error)
	// Waiting returns the number of pending events of each Subscription, without their bytes.
	Waiting(ctx context.Context) ([]Held, error)
	// Bytes returns the size of a Subscription's pending events. It stops reading once that exceeds enough.
	Bytes(ctx context.Context, subscription types.NamespacedName, enough int64) (int64, error)
}

// Monitor watches which Subscriptions exceed their namespace's share.
type Monitor struct {
	stream  Stream
	options Options
	enforce func(ctx context.Context, over []Held)
	log     logr.Logger
	over    *prometheus.GaugeVec

	mu     sync.Mutex
	limits map[types.NamespacedName]*Limit

	limited map[types.NamespacedName]uint64 // only Run touches it
}

// New registers rouse_eventbridge_quota_exceeded. Run updates it, and calls enforce after each poll with the
// Subscriptions that are over their limit.
func New(
	stream Stream, options Options, enforce func(ctx context.Context, over []Held), registerer prometheus.Registerer, log logr.Logger,
) *Monitor {
	m := &Monitor{
		stream: stream, options: options, enforce: enforce, log: log, limits: map[types.NamespacedName]*Limit{},
		over: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_quota_exceeded",
			Help: "1 while the events of a namespace take more of the stream than its share; absent otherwise.",
		}, []string{"namespace"}),
	}
	registerer.MustRegister(m.over)
	return m
}

// Limit returns the limit of a Subscription, the same one until Forget is called.
func (m *Monitor) Limit(subscription types.NamespacedName) *Limit {
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := m.limits[subscription]
	if limit == nil {
		limit = newLimit()
		m.limits[subscription] = limit
	}
	return limit
}

// Forget drops the limit of a removed Subscription.
func (m *Monitor) Forget(subscription types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.limits, subscription)
}

// lift ends a limit, and creates none for a removed Subscription.
func (m *Monitor) lift(subscription types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if limit := m.limits[subscription]; limit != nil {
		limit.set(0, false)
	}
}

// Run polls until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	if !m.options.enabled() {
		<-ctx.Done()
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			pause := interval
			if m.poll(ctx) {
				pause = rest
			}
			timer.Reset(pause + rand.N(pause/4)) //nolint:gosec // jitter needs no secrecy
		}
	}
}

// poll reports whether it read bytes.
func (m *Monitor) poll(ctx context.Context) (read bool) {
	pollCtx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	held, share, read, err := m.measure(pollCtx)
	if err != nil {
		m.log.V(1).Info("cannot measure what namespaces hold in the stream", "reason", err.Error())
		held = nil
	}
	allowed := allowances(held, share)
	m.apply(allowed)
	m.enforce(ctx, slices.DeleteFunc(held, func(h Held) bool {
		_, limited := allowed[h.Subscription]
		return !limited
	}))
	return read
}

// measure sends no more requests than needed to find that no namespace exceeds its share.
func (m *Monitor) measure(ctx context.Context) (held []Held, share Amount, read bool, err error) {
	use, err := m.stream.Use(ctx)
	if err != nil {
		return nil, share, false, err
	}
	share = Amount{Events: uint64(m.options.Share * float64(use.Max.Events)), Bytes: int64(m.options.Share * float64(use.Max.Bytes))}
	if use.Max.Events == 0 {
		share.Events = use.Events
	}
	if use.Max.Bytes == 0 {
		share.Bytes = use.Bytes
	}
	if use.Events <= share.Events && use.Bytes <= share.Bytes {
		return nil, share, false, nil
	}
	held, err = m.stream.Waiting(ctx)
	if err != nil {
		return nil, share, false, err
	}
	for i := range held {
		if use.Bytes <= share.Bytes || held[i].Events == 0 {
			continue
		}
		read = true
		if held[i].Bytes, err = m.stream.Bytes(ctx, held[i].Subscription, 2*share.Bytes); err != nil {
			return nil, share, read, err
		}
	}
	return held, share, read, nil
}

func (m *Monitor) apply(allowed map[types.NamespacedName]uint64) {
	for subscription := range m.limited {
		if _, still := allowed[subscription]; !still {
			m.lift(subscription)
			m.over.DeleteLabelValues(subscription.Namespace)
			m.log.Info("the namespace is within its share of the stream again", "subscription", subscription.String())
		}
	}
	for subscription, events := range allowed {
		if _, already := m.limited[subscription]; !already {
			m.log.Info("the namespace exceeds its share of the stream, its oldest events become dead letters",
				"subscription", subscription.String(), "allowedEvents", events)
		}
		m.Limit(subscription).set(events, true)
		m.over.WithLabelValues(subscription.Namespace).Set(1)
	}
	m.limited = allowed
}
