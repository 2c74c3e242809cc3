package doors

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/door"
)

// result is what became of a request, a label of its metric.
type result string

const (
	accepted    result = "accepted"
	repeated    result = "repeated"
	dropped     result = "dropped"
	challenged  result = "challenged"
	refused     result = "refused"
	forbidden   result = "forbidden"
	mistyped    result = "type"
	invalid     result = "invalid"
	conflicting result = "conflict"
	tooLarge    result = "too_large"
	limited     result = "limited"
	failed      result = "failed"
)

// isGood reports whether the sender was told that all is well.
func (r result) isGood() bool {
	return r == accepted || r == repeated || r == dropped || r == challenged
}

type metrics struct {
	doors    prometheus.Gauge
	requests *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		doors: prometheus.NewGauge(prometheus.GaugeOpts{Name: "rouse_eventbridge_doors", Help: "Doors whose requests are taken."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_door_requests_total",
			Help: "Requests to a Door by what became of them: accepted, repeated, dropped, challenged, refused, forbidden, type, invalid, conflict, " +
				"too_large, limited or failed.",
		}, []string{"namespace", "door", "result"}),
	}
	registerer.MustRegister(m.doors, m.requests)
	return m
}

func (m *metrics) count(at types.NamespacedName, is result) {
	m.requests.WithLabelValues(at.Namespace, at.Name, string(is)).Inc()
}

func (m *metrics) forget(at types.NamespacedName) {
	m.requests.DeletePartialMatch(prometheus.Labels{"namespace": at.Namespace, "door": at.Name})
}

const (
	// reportInterval is between reports, and doorsAtATime bounds the Doors of one.
	reportInterval = 5 * time.Second
	doorsAtATime   = 64
)

// reports collects what the controller shows in the status of Doors.
type reports struct {
	mu  sync.Mutex
	new map[types.UID]*door.Report
}

func newReports() *reports { return &reports{new: map[types.UID]*door.Report{}} }

func (r *reports) note(v *visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := r.new[v.at.UID]
	if report == nil {
		report = &door.Report{}
		r.new[v.at.UID] = report
	}
	if v.result.isGood() {
		report.Accepted = v.now
	}
	if v.reason != "" {
		report.Refused, report.Reason = v.now, v.reason
	}
	if v.verified.Key != "" {
		report.Key, report.KeyUsed = v.verified.Key, v.now
	}
	if !v.verified.Expires.IsZero() {
		report.Expires = v.verified.Expires
	}
}

// send announces what is new until ctx ends. What gets lost is shown with the next request.
func (r *reports) send(ctx context.Context, to Store, id string) {
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, part := range r.take() {
			_ = to.ReportDoors(id, door.EncodeReports(part))
		}
	}
}

// take returns what is new, in parts that fit into an announcement.
func (r *reports) take() []map[types.UID]*door.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []map[types.UID]*door.Report
	for uid, report := range r.new {
		if last := len(parts) - 1; last < 0 || len(parts[last]) == doorsAtATime {
			parts = append(parts, map[types.UID]*door.Report{})
		}
		parts[len(parts)-1][uid] = report
	}
	r.new = map[types.UID]*door.Report{}
	return parts
}
