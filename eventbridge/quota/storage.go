package quota

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// StorageOptions say when events are refused.
type StorageOptions struct {
	Watermark float64 // share of the stream that publishers may fill; 0 and 1 leave refusing to the server
}

// DefaultStorageOptions keeps a twentieth of the stream for retries and redrives.
func DefaultStorageOptions() StorageOptions { return StorageOptions{Watermark: 0.95} }

// BindFlags adds --storage-watermark.
func (o *StorageOptions) BindFlags(fs *pflag.FlagSet) {
	fs.Float64Var(&o.Watermark, "storage-watermark", o.Watermark,
		"share of the stream of events above which new ones are refused, so that retries find room; 0 or 1: none")
}

// Validate checks the share.
func (o *StorageOptions) Validate() error {
	if !(o.Watermark >= 0 && o.Watermark <= 1) { // NaN is neither
		return errors.New("--storage-watermark must be from 0 to 1")
	}
	return nil
}

// refuses reports whether a stream is too full for new events.
func (o *StorageOptions) refuses(fill float64) bool { return o.enabled() && fill >= o.Watermark }

// near reports whether a stream may soon be too full.
func (o *StorageOptions) near(fill float64) bool { return o.enabled() && fill >= o.Watermark-approach }

func (o *StorageOptions) enabled() bool { return o.Watermark > 0 && o.Watermark < 1 }

const (
	// storageInterval is how often the streams are asked, and nearInterval how often close to the watermark.
	storageInterval = 2 * time.Second
	nearInterval    = 250 * time.Millisecond
	// approach is how far below the watermark close begins: more than a burst fills within an interval.
	approach = 0.1
	// askTimeout bounds one poll of all streams.
	askTimeout = 2 * time.Second
	// staleAfter is how long an answer counts when there is no newer one.
	staleAfter = 10 * time.Second
	// quiet is how long the log says nothing of a stream that is filled and emptied again and again.
	quiet = time.Minute
)

// FillStreams reports how full streams are.
type FillStreams interface {
	// FillStreams names them; the first is the one with the events.
	Streams() []string
	// Fill is the share of a stream that is used, from 0 to 1.
	Fill(ctx context.Context, stream string) (float64, error)
}

// StorageDeps are what a Monitor works with.
type StorageDeps struct {
	Streams    FillStreams
	Registerer prometheus.Registerer
	Log        logr.Logger
}

// StorageMonitor knows how full the streams are.
type StorageMonitor struct {
	deps    StorageDeps
	options StorageOptions
	fill    *prometheus.GaugeVec
	full    atomic.Bool

	// Only Run touches these.
	known      map[string]reading
	loggedFull bool // what the log last said
	loggedAt   time.Time
}

// reading is what a stream last answered.
type reading struct {
	fill float64
	at   time.Time
}

// NewStorageMonitor registers rouse_eventbridge_stream_fill_ratio; Run keeps it up to date.
func NewStorageMonitor(deps StorageDeps, options StorageOptions) *StorageMonitor {
	m := &StorageMonitor{deps: deps, options: options, known: map[string]reading{}, fill: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rouse_eventbridge_stream_fill_ratio", Help: "Share of a stream's bounds that is used; absent while it is unknown.",
	}, []string{"stream"})}
	deps.Registerer.MustRegister(m.fill)
	return m
}

// Full reports whether new events shall be refused. It may be called for each of them.
func (m *StorageMonitor) Full() bool { return m.full.Load() }

// Run asks the streams until ctx ends.
func (m *StorageMonitor) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			m.poll(ctx)
			timer.Reset(m.pause())
		}
	}
}

func (m *StorageMonitor) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, stream := range m.deps.Streams.Streams() {
		m.ask(ctx, stream)
	}
}

// ask acts on an answer before it shows it.
func (m *StorageMonitor) ask(ctx context.Context, stream string) {
	fill, err := m.deps.Streams.Fill(ctx, stream)
	switch {
	case err == nil:
		m.known[stream] = reading{fill: fill, at: time.Now()}
		m.judge()
		m.fill.WithLabelValues(stream).Set(fill)
	case time.Since(m.known[stream].at) > staleAfter:
		delete(m.known, stream)
		m.judge()
		m.fill.DeleteLabelValues(stream)
		m.deps.Log.V(1).Info("it is not known how full a stream is", "stream", stream, "reason", err.Error())
	}
}

// judge decides whether events are taken from now on.
func (m *StorageMonitor) judge() {
	events := m.events()
	full := m.options.refuses(events.fill)
	m.full.Store(full)
	if m.loggedFull == full || time.Since(m.loggedAt) < quiet {
		return
	}
	m.loggedFull, m.loggedAt = full, time.Now()
	if full {
		m.deps.Log.Info("refusing events, because their stream is nearly full", "fill", events.fill, "watermark", m.options.Watermark)
		return
	}
	m.deps.Log.Info("taking events again", "fill", events.fill)
}

func (m *StorageMonitor) pause() time.Duration {
	if m.options.near(m.events().fill) {
		return nearInterval
	}
	return storageInterval
}

// events is what is known of the stream of events, nothing if it was not answered for.
func (m *StorageMonitor) events() reading { return m.known[m.deps.Streams.Streams()[0]] }
