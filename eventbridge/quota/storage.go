package quota

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/flags"
)

// StorageOptions set when publishers are refused.
type StorageOptions struct {
	Watermark float64 // share of the stream that publishers may fill; 0 and 1 leave it to the server to refuse events
}

// DefaultStorageOptions reserves a twentieth of the stream for retries and redrives.
func DefaultStorageOptions() StorageOptions { return StorageOptions{Watermark: 0.95} }

// Flags declares --storage-watermark.
func (o *StorageOptions) Flags(fs *flags.Set) {
	fs.Float64(&o.Watermark, "storage-watermark",
		"share of the stream of events above which new ones are refused, so that retries find room; 0 or 1: none").Between(0, 1)
}

// refuses reports whether the stream is too full for new events.
func (o *StorageOptions) refuses(fill float64) bool { return o.enabled() && fill >= o.Watermark }

// near reports whether the stream is close to the watermark.
func (o *StorageOptions) near(fill float64) bool { return o.enabled() && fill >= o.Watermark-approach }

func (o *StorageOptions) enabled() bool { return o.Watermark > 0 && o.Watermark < 1 }

const (
	// storageInterval is the pause between two polls, and nearInterval the pause close to the watermark.
	storageInterval = 2 * time.Second
	nearInterval    = 250 * time.Millisecond
	// approach is how far below the watermark polling becomes faster: more than a burst fills within an interval.
	approach = 0.1
	// storagePollTimeout bounds one poll of all streams.
	storagePollTimeout = 2 * time.Second
	// staleAfter bounds how long the last reading is used when the stream does not answer.
	staleAfter = 10 * time.Second
	// quiet is the shortest time between two log lines about a stream that fills and drains repeatedly.
	quiet = time.Minute
)

// StorageStreams reports how full the streams are.
type StorageStreams interface {
	// Streams returns the names of the streams; the first is the stream of events.
	Streams() []string
	// Fill returns the used share of a stream, from 0 to 1.
	Fill(ctx context.Context, stream string) (float64, error)
}

// StorageDeps are the dependencies of a StorageMonitor.
type StorageDeps struct {
	Streams    StorageStreams
	Registerer prometheus.Registerer
	Log        logr.Logger
}

// StorageMonitor watches how full the streams are.
type StorageMonitor struct {
	deps    StorageDeps
	options StorageOptions
	fill    *prometheus.GaugeVec
	full    atomic.Bool

	// Only Run touches these.
	known      map[string]reading
	loggedFull bool // as logged last
	loggedAt   time.Time
}

// reading is the last known fill of a stream.
type reading struct {
	fill float64
	at   time.Time
}

// NewStorageMonitor registers rouse_eventbridge_stream_fill_ratio; Run updates it.
func NewStorageMonitor(deps StorageDeps, options StorageOptions) *StorageMonitor {
	m := &StorageMonitor{deps: deps, options: options, known: map[string]reading{}, fill: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rouse_eventbridge_stream_fill_ratio", Help: "Share of a stream's bounds that is used; absent while it is unknown.",
	}, []string{"stream"})}
	deps.Registerer.MustRegister(m.fill)
	return m
}

// Full reports whether new events are to be refused. It takes no lock and may be called for each event.
func (m *StorageMonitor) Full() bool { return m.full.Load() }

// Run polls the streams until ctx ends.
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
	ctx, cancel := context.WithTimeout(ctx, storagePollTimeout)
	defer cancel()
	for _, stream := range m.deps.Streams.Streams() {
		m.measure(ctx, stream)
	}
}

// measure applies a reading before it exports it.
func (m *StorageMonitor) measure(ctx context.Context, stream string) {
	fill, err := m.deps.Streams.Fill(ctx, stream)
	switch {
	case err == nil:
		m.known[stream] = reading{fill: fill, at: time.Now()}
		m.decide()
		m.fill.WithLabelValues(stream).Set(fill)
	case time.Since(m.known[stream].at) > staleAfter:
		delete(m.known, stream)
		m.decide()
		m.fill.DeleteLabelValues(stream)
		m.deps.Log.V(1).Info("cannot measure how full the stream is", "stream", stream, "reason", err.Error())
	}
}

// decide sets whether new events are refused.
func (m *StorageMonitor) decide() {
	events := m.events()
	full := m.options.refuses(events.fill)
	m.full.Store(full)
	if m.loggedFull == full || time.Since(m.loggedAt) < quiet {
		return
	}
	m.loggedFull, m.loggedAt = full, time.Now()
	if full {
		m.deps.Log.Info("refusing new events: the stream is nearly full", "fill", events.fill, "watermark", m.options.Watermark)
		return
	}
	m.deps.Log.Info("accepting events again", "fill", events.fill)
}

func (m *StorageMonitor) pause() time.Duration {
	if m.options.near(m.events().fill) {
		return nearInterval
	}
	return storageInterval
}

// events returns the last reading of the stream of events, zero if there is none.
func (m *StorageMonitor) events() reading { return m.known[m.deps.Streams.Streams()[0]] }
