package ingress

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// metrics are the metrics of the publish endpoints.
type metrics struct {
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	backend     *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	published   *published
	destination string
	publish     map[int]children // of POST /publish, bound once
}

type children struct {
	requests prometheus.Counter
	duration prometheus.Observer
	backend  prometheus.Observer
}

const (
	publishPath    = "/publish"
	publishPattern = http.MethodPost + " " + publishPath
	other          = "other" // label of unknown paths and methods
)

func newMetrics(deps Deps, options Options, memory *bodyMemory) *metrics {
	labels := []string{"code", "method", "path"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventing_epp_requests_total", Help: "Requests of publishers.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "eventing_epp_requests_duration_seconds",
			Help:    "Time to answer publishers.",
			Buckets: requestBuckets(),
		}, labels),
		backend: prometheus.NewHistogramVec(prometheus.HistogramOpts{ //nolint:promlinter // the name and its unit are Kyma's
			Name:    "eventing_epp_backend_duration_milliseconds",
			Help:    "Time to store an event.",
			Buckets: prometheus.ExponentialBuckets(2, 2, 10),
		}, []string{"code", "destination_service"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_publishes_in_flight", Help: "Publish requests that are being answered.",
		}),
		published:   newPublished(options.MaxEventTypeSeries),
		destination: deps.Destination,
		publish:     map[int]children{},
	}
	health := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "eventing_epp_health", Help: "1 while events can be stored.",
	}, func() float64 {
		if deps.Connected() {
			return 1
		}
		return 0
	})
	bytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_eventbridge_publish_bytes_in_flight", Help: "Bytes of publish requests that are in memory.",
	}, func() float64 { return float64(memory.used.Load()) })
	deps.Registerer.MustRegister(m.requests, m.duration, m.backend, m.published.events, m.inFlight, bytes, health)
	for _, code := range []int{204, 400, 408, 429, 500, 502, 503, 504, 507} {
		m.publish[code] = m.bind(code)
	}
	return m
}

// requestBuckets are the buckets of Kyma's publisher proxy, in seconds.
func requestBuckets() []float64 {
	return []float64{
		0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5,
		0.6, 0.7, 0.8, 0.9, 1, 1.5, 2, 3, 5,
	}
}

func (m *metrics) bind(code int) children {
	text := strconv.Itoa(code)
	return children{
		requests: m.requests.WithLabelValues(text, http.MethodPost, publishPath),
		duration: m.duration.WithLabelValues(text, http.MethodPost, publishPath),
		backend:  m.backend.WithLabelValues(text, m.destination),
	}
}

func (m *metrics) stored(code int, took time.Duration) {
	bound, ok := m.publish[code]
	if !ok {
		bound = m.bind(code)
	}
	bound.backend.Observe(float64(took) / float64(time.Millisecond))
}

// instrument counts and times the responses of mux.
func (m *metrics) instrument(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.inFlight.Inc()
		defer m.inFlight.Dec()
		started := time.Now()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		mux.ServeHTTP(recorder, r)
		seconds := time.Since(started).Seconds()
		if bound, ok := m.publish[recorder.status]; ok && r.Pattern == publishPattern {
			bound.requests.Inc()
			bound.duration.Observe(seconds)
			return
		}
		labels := []string{strconv.Itoa(recorder.status), methodLabel(r.Method), pathLabel(r.Pattern)}
		m.requests.WithLabelValues(labels...).Inc()
		m.duration.WithLabelValues(labels...).Observe(seconds)
	})
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return other
	}
}

// pathLabel returns the path of the pattern that served a request.
func pathLabel(pattern string) string {
	_, path, found := strings.Cut(pattern, " ")
	if !found {
		return other
	}
	return path
}

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// codeStored is the label that Kyma gives to every stored event.
const codeStored = "204"

// maxLabel bounds type and source as labels: they may be as long as a request.
const maxLabel = 256

// published counts stored events by type and source. Publishers choose both, so only the first ones get their own
// series.
type published struct {
	events *prometheus.CounterVec
	limit  int
	rest   prometheus.Counter

	mu    sync.Mutex                                         // held to add a kind
	known atomic.Pointer[map[kindOfEvent]prometheus.Counter] // replaced, never changed
}

type kindOfEvent struct{ name, source string }

func newPublished(limit int) *published {
	p := &published{limit: limit, events: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "eventing_epp_event_type_published_total",
		Help: "Stored events by type and source; those beyond a number of both are other.",
	}, []string{"event_type", "event_source", "code"})}
	p.rest = p.events.WithLabelValues(other, other, codeStored)
	p.known.Store(&map[kindOfEvent]prometheus.Counter{})
	return p
}

func (p *published) count(ev *cloudevent.Event) {
	kind := kindOfEvent{ev.Type, ev.Source}
	if counter, ok := (*p.known.Load())[kind]; ok {
		counter.Inc()
		return
	}
	p.learn(kind).Inc()
}

// learn adds the series of a kind while there are fewer than the limit.
func (p *published) learn(kind kindOfEvent) prometheus.Counter {
	if len(*p.known.Load()) >= p.limit || len(kind.name) > maxLabel || len(kind.source) > maxLabel {
		return p.rest
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := *p.known.Load()
	if counter, ok := known[kind]; ok {
		return counter
	}
	if len(known) >= p.limit {
		return p.rest
	}
	kind = kindOfEvent{strings.Clone(kind.name), strings.Clone(kind.source)} // do not hold the request's memory
	counter, err := p.events.GetMetricWithLabelValues(kind.name, kind.source, codeStored)
	if err != nil {
		return p.rest // not valid UTF-8
	}
	more := maps.Clone(known)
	more[kind] = counter
	p.known.Store(&more)
	return counter
}
