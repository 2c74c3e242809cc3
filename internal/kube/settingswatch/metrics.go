package settingswatch

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rouse-run/rouse/internal/daemon"
)

// metrics have a file as their only label.
type metrics struct {
	good    *prometheus.GaugeVec
	changes *prometheus.CounterVec
	since   *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer, log *daemon.Log) *metrics {
	factory, labels := promauto.With(registerer), []string{"file"}
	if log != nil {
		factory.NewCounterFunc(prometheus.CounterOpts{
			Name: "rouse_log_lines_dropped_total",
			Help: "Lines about Functions and Subscriptions with the annotation rouse.run/debug-until that were left out to bound the log.",
		}, func() float64 { return float64(log.Dropped()) })
	}
	return &metrics{
		good: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_settings_valid", Help: "1 when the settings of the ConfigMap are in force, 0 when they cannot be used and earlier ones stay.",
		}, labels),
		changes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_settings_changes_total", Help: "How often changed settings were put in force.",
		}, labels),
		since: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_settings_changed_timestamp_seconds", Help: "When settings were put in force last.",
		}, labels),
	}
}

// known shows a file from the start: it is not valid before it was read.
func (m *metrics) known(key string) {
	m.good.WithLabelValues(key)
	m.changes.WithLabelValues(key)
}

func (m *metrics) valid(key string, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	m.good.WithLabelValues(key).Set(value)
}

func (m *metrics) changed(key string) {
	m.changes.WithLabelValues(key).Inc()
	m.since.WithLabelValues(key).SetToCurrentTime()
}
