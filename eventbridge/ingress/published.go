package ingress

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// codeStored is the label that Kyma gives to every event that counts here.
const codeStored = "204"

// maxLabel bounds type and source as labels: they may be as long as a request.
const maxLabel = 256

// published counts stored events by type and source. Publishers choose both, so only the first ones get series of their
// own.
type published struct {
	events *prometheus.CounterVec
	limit  int
	rest   prometheus.Counter

	mu    sync.Mutex                                         // held to learn a kind
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

// learn gives a kind its series while there are fewer than the limit.
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
	kind = kindOfEvent{strings.Clone(kind.name), strings.Clone(kind.source)} // not the request that it was read from
	counter, err := p.events.GetMetricWithLabelValues(kind.name, kind.source, codeStored)
	if err != nil {
		return p.rest // it is no text
	}
	more := maps.Clone(known)
	more[kind] = counter
	p.known.Store(&more)
	return counter
}
