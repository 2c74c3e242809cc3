package apirules

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// outcome is how a request ended, the label of its metric.
type outcome string

const (
	served       outcome = "served" // whatever the backend, or the activator of a Function, has answered
	notFound     outcome = "not_found"
	preflight    outcome = "preflight"
	denied       outcome = "denied"
	unauthorized outcome = "unauthorized"
	closed       outcome = "closed"
	overload     outcome = "overload"
	timedOut     outcome = "timeout"
	unreachable  outcome = "unreachable"
	clientGone   outcome = "client_gone"
	unfinished   outcome = "unfinished" // the body of the request did not reach its end
)

// requestBuckets reach from an answer of a warm backend to the longest timeout of a rule.
var requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600, 3900}

type metrics struct {
	requests *prometheus.CounterVec
	evicted  prometheus.Counter
	seconds  prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, hosts func() int) *metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_gateway_exposed_hosts", Help: "Hosts of APIRules that are served.",
	}, func() float64 { return float64(hosts()) })
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_gateway_exposed_requests_total",
			Help: "Requests to APIRules that have ended, by how (served, not_found, preflight, denied, unauthorized, closed, overload, " +
				"timeout, unreachable, client_gone or unfinished) and by the class of the status.",
		}, []string{"outcome", "code"}),
		evicted: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_exposed_evicted_total",
			Help: "Requests that were ended for further ones of their namespace, APIRule or caller, as their callers were slowest.",
		}),
		seconds: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "rouse_gateway_exposed_request_seconds",
			Help:    "Time from the headers of a request to an APIRule to the end of its answer.",
			Buckets: requestBuckets,
		}),
	}
}

func (m *metrics) finished(how outcome, status int, took time.Duration) {
	const class = 100
	m.requests.WithLabelValues(string(how), strconv.Itoa(status/class)+"xx").Inc()
	m.seconds.Observe(took.Seconds())
}
