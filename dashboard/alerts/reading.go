package alerts

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
	"unique"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Reading is what a pod reports.
type Reading struct {
	Pod      string
	families map[string]*dto.MetricFamily
}

// Decode reads metrics in Prometheus' text format.
func Decode(pod string, text io.Reader) (Reading, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return Reading{}, fmt.Errorf("metrics of pod %s: %w", pod, err)
	}
	return Reading{Pod: pod, families: families}, nil
}

// Names returns the metrics that a reading should have, for the parameter name[] of a scrape.
func Names() []string { return append(slices.Sorted(maps.Keys(measures)), started) }

// The metrics that the rules read.
const (
	backlogEvents  = "rouse_controller_backlog_events"
	deadLetters    = "rouse_eventbridge_dead_letters_total"
	dropped        = "rouse_eventbridge_dead_letters_dropped_total"
	quotaExceeded  = "rouse_eventbridge_quota_exceeded"
	streamFill     = "rouse_eventbridge_stream_fill_ratio"
	recoveries     = "rouse_controller_consumer_recoveries_total"
	foreignPending = "rouse_controller_foreign_consumer_pending_events"
	connected      = "eventing_epp_health"
	deliveries     = "rouse_eventbridge_deliveries_total"
	settingsValid  = "rouse_settings_valid"
	refreshErrors  = "rouse_scaler_refresh_errors_total"

	// started is the time at which a process began to count.
	started = "process_start_time_seconds"
)

// The labels of series. Prometheus adds the name of the pod to what it scrapes.
const (
	namespace    = "namespace"
	subscription = "subscription"
	pod          = "pod"
)

// measure says what is kept of a metric: the labels that become a subject, and how long.
type measure struct {
	namespace, name, detail string
	// fold returns what is kept of the detail, so that a window takes less memory; nil: all.
	fold   func(detail string) string
	counts bool
	window time.Duration
}

var measures = map[string]measure{
	backlogEvents:  {namespace: namespace, name: subscription, window: 15 * time.Minute},
	deadLetters:    {namespace: namespace, name: subscription, detail: "reason", counts: true, window: 15 * time.Minute},
	dropped:        {namespace: namespace, counts: true, window: 15 * time.Minute},
	quotaExceeded:  {namespace: namespace, window: 5 * time.Minute},
	streamFill:     {name: "stream", window: 5 * time.Minute},
	recoveries:     {namespace: namespace, name: subscription, counts: true, window: time.Hour},
	foreignPending: {name: "consumer"},
	connected:      {name: pod},
	deliveries:     {namespace: namespace, name: subscription, detail: "outcome", fold: failedOrDone, counts: true, window: 10 * time.Minute},
	settingsValid:  {name: pod, detail: "file"},
	refreshErrors:  {name: pod, counts: true, window: 5 * time.Minute},
}

// failed and done are what is kept of the outcome of a delivery.
const (
	failed = "failed"
	done   = "done"
)

func failedOrDone(outcome string) string {
	if outcome == "retry" || outcome == "reject" {
		return failed
	}
	return done
}

// subject is what a series is about, and then an alert. Readings of an hour share a handle.
type subject struct{ namespace, name, detail string }

type handle = unique.Handle[subject]

func (m measure) subjectOf(of string, metric *dto.Metric) subject {
	var found subject
	for _, label := range metric.GetLabel() {
		switch label.GetName() {
		case m.namespace:
			found.namespace = label.GetValue()
		case m.name:
			found.name = label.GetValue()
		case m.detail:
			found.detail = label.GetValue()
		}
	}
	if m.name == pod {
		found.name = of
	}
	if m.fold != nil {
		found.detail = m.fold(found.detail)
	}
	return found
}

func valueOf(metric *dto.Metric) float64 {
	switch {
	case metric.Counter != nil:
		return metric.GetCounter().GetValue()
	case metric.Gauge != nil:
		return metric.GetGauge().GetValue()
	}
	return metric.GetUntyped().GetValue()
}

// mostSeries bounds what is kept of a metric for a namespace, whose Subscriptions must not hide those of others.
const mostSeries = 10000

// values returns what a pod reports of a metric by subject: the sum of counters, the maximum of gauges.
func (r *Reading) values(name string) map[handle]float64 {
	m, found, of := measures[name], map[handle]float64{}, map[string]int{}
	for _, metric := range r.families[name].GetMetric() {
		about, value := unique.Make(m.subjectOf(r.Pod, metric)), valueOf(metric)
		old, known := found[about]
		if !known {
			namespace := about.Value().namespace
			if of[namespace]++; of[namespace] > mostSeries {
				continue
			}
		}
		switch {
		case m.counts:
			found[about] = old + value
		case !known || value > old:
			found[about] = value
		}
	}
	return found
}

// startedAt returns when the process of the pod began to count, zero if the pod does not report it.
func (r *Reading) startedAt() time.Time {
	for _, metric := range r.families[started].GetMetric() {
		return time.UnixMilli(int64(valueOf(metric) * 1000))
	}
	return time.Time{}
}
