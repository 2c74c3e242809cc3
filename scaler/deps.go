package scaler

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/scaler/kedaspans"
)

// Routes lists the Subscriptions.
type Routes interface {
	// Watch hands the full set to apply, now and after each change, until ctx
	// ends.
	Watch(ctx context.Context, apply func([]routing.Route)) error
}

// Endpoints watches the endpoints of a Service.
type Endpoints interface {
	// Watch hands the endpoints of one port to apply, now and after each
	// change, until ctx ends.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// Backlogs reads how much waits for a durable consumer.
type Backlogs interface {
	// Backlog fails with broker.ErrConsumerNotFound when there is no such
	// consumer, and with another error when that cannot be said.
	Backlog(ctx context.Context, stream, consumer string) (broker.Backlog, error)
	// DetachedCallsOf counts the calls of a Subscription that go on and are not in
	// its backlog any more.
	DetachedCallsOf(ctx context.Context, subscription types.NamespacedName) (uint64, error)
}

// Listener receives publishes.
type Listener interface {
	// OnPublish calls notify once, at the first message on any of the
	// subjects. stop may be called at any time, and more than once.
	OnPublish(subjects []string, notify func()) (stop func(), err error)
	// WatchAhead calls apply with the subject of each event that is announced to
	// be published soon, one at a time, until ctx ends.
	WatchAhead(ctx context.Context, apply func(subject string)) error
}

// Connection reports whether the broker can be reached.
type Connection interface {
	// Connected answers from memory.
	Connected() bool
	// OnConnect has notify called after each connect.
	OnConnect(notify func())
}

// Registry takes metrics and gives them back for scraping.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Gateways know what the gateways hold for Functions.
type Gateways interface {
	// Run keeps that current until ctx ends.
	Run(ctx context.Context) error
	// Load answers from memory, with the sum over all gateways. With an error
	// there may be more.
	Load(function types.NamespacedName) (activation.FunctionLoad, error)
	// OnRequest calls notify each time that a gateway has taken requests. stop
	// may be called more than once.
	OnRequest(function types.NamespacedName, notify func()) (stop func())
	// Connected counts the gateways that report.
	Connected() int
}

// Pods asks pods how many calls they run.
type Pods interface {
	// Loads has the load of each pod that has any, by address. A pod that may
	// have calls and cannot be asked is an error.
	Loads(ctx context.Context, namespace string, endpoints []routing.Endpoint) (map[string]activation.PodLoad, error)
}

// Listings watches which Functions callers reach through gateways.
type Listings interface {
	// WatchFunction calls apply with whether gateways are listed as endpoints
	// of the Function, now and after each change, until ctx ends.
	WatchFunction(ctx context.Context, function types.NamespacedName, apply func(listed bool)) error
}

// Idleness takes notice of Functions that may sleep soon.
type Idleness interface {
	// AnnounceIdle has gateways listed for the Function for a while.
	AnnounceIdle(function types.NamespacedName) error
}

// HTTP is what counting calls over HTTP takes. All fields are required.
type HTTP struct {
	Gateways Gateways
	Pods     Pods
	Listings Listings
	Idleness Idleness
}

// Deps is what a Scaler works with. All fields but HTTP, Wants, Wakes and Tracer are required.
type Deps struct {
	Routes     Routes
	Endpoints  Endpoints
	Backlogs   Backlogs
	Listener   Listener
	Connection Connection
	HTTP       *HTTP // nil: HTTP wakes no Function, whatever triggers say
	Wants      Wants // nil: KEDA and the HPA alone decide on replicas
	Wakes      Wakes // nil: nobody is told how wakes went
	Registry   Registry
	Tracer     *kedaspans.Tracer // nil makes no spans
	Log        logr.Logger
}

// latencyBuckets reach from one network hop to a pod that pulls its image.
var latencyBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 4, 8, 16, 32, 64}

type metrics struct {
	streams       *prometheus.GaugeVec
	streamGap     prometheus.Histogram
	tracked       prometheus.Gauge
	activations   *prometheus.CounterVec
	activation    *prometheus.HistogramVec
	ready         prometheus.Histogram
	refreshErrors prometheus.Counter
	podLoadErrors prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	histogram := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencyBuckets}
	}
	return &metrics{
		streams: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_scaler_streams_open", Help: "Streams that KEDA holds, by call.",
		}, []string{"call"}),
		streamGap: factory.NewHistogram(histogram("rouse_scaler_stream_gap_seconds",
			"Time in which KEDA held no stream for a Function between two that it held.")),
		tracked: factory.NewGauge(prometheus.GaugeOpts{
			Name: "rouse_scaler_functions_tracked", Help: "Functions that KEDA asks about.",
		}),
		activations: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_scaler_activations_total", Help: "Activations sent to KEDA for Functions without a ready endpoint, by what caused them.",
		}, []string{"cause"}),
		activation: factory.NewHistogramVec(histogram("rouse_scaler_activation_seconds",
			"Time from the first sign of a backlog to the activation sent to KEDA, by what the sign was."),
			[]string{"cause"}),
		ready: factory.NewHistogram(histogram("rouse_scaler_ready_endpoint_seconds",
			"Time from the first sign of a backlog to the Function's first ready endpoint.")),
		refreshErrors: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_scaler_refresh_errors_total", Help: "Readings of a backlog that failed.",
		}),
		podLoadErrors: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_scaler_pod_load_errors_total", Help: "Readings of the calls that a Function's pods run that failed.",
		}),
	}
}

// registerGateways exports how many gateways report what they hold.
func registerGateways(registerer prometheus.Registerer, connected func() int) {
	promauto.With(registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_scaler_gateways_connected", Help: "Gateways that report the requests that they hold.",
	}, func() float64 { return float64(connected()) })
}

// registerSnapshotAge exports the age of the oldest answer that could be given.
func registerSnapshotAge(registerer prometheus.Registerer, oldest func() float64) {
	promauto.With(registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_scaler_snapshot_age_seconds", Help: "Age of the oldest backlog held in memory.",
	}, oldest)
}
