package timers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	schedules prometheus.Gauge
	published *prometheus.CounterVec
	missed    *prometheus.CounterVec
	waiting   prometheus.Gauge
	lateness  *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		schedules: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_schedules", Help: "Schedules whose events are published when they are due.",
		}),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_scheduled_events_total", Help: "Events of Schedules that this bridge published.",
		}, []string{"namespace"}),
		missed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_scheduled_events_missed_total",
			Help: "Due times of Schedules without an event, because it could not be published in time and the policy leaves it out.",
		}, []string{"namespace"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_delayed_events", Help: "Events that wait for the time at which they are to be published; all bridges report the same.",
		}),
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rouse_eventbridge_due_lateness_seconds", Help: "Time from when an event of a Schedule, or a delayed one, was due until it was stored.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		}, []string{"of"}),
	}
	registerer.MustRegister(m.schedules, m.published, m.missed, m.waiting, m.lateness)
	return m
}

func (m *metrics) scheduled(namespace string, late time.Duration) {
	m.published.WithLabelValues(namespace).Inc()
	m.lateness.WithLabelValues("scheduled").Observe(late.Seconds())
}
