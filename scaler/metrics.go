package scaler

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

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
