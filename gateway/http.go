package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
)

// loadHandler is for the scaler, and for the controller, which asks whether the process lives and what it has loaded.
func (g *Gateway) loadHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+activation.GatewayLoadPath, g.load)
	mux.HandleFunc("GET /healthz", healthy)
	if g.apiRules != nil {
		mux.HandleFunc("GET "+apirule.ReportPath, g.reportAPIRules)
	}
	return mux
}

// reportAPIRules is for the controller, which says in their status whether they are served.
func (g *Gateway) reportAPIRules(w http.ResponseWriter, _ *http.Request) {
	if err := g.apiRules.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(g.apiRules.report())
}

func (g *Gateway) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if g.draining.Load() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		if err := g.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.deps.Registry, promhttp.HandlerOpts{Registry: g.deps.Registry}))
	return mux
}

func (g *Gateway) ready() error {
	if err := g.ports.Ready(); err != nil || g.apiRules == nil {
		return err
	}
	return g.apiRules.ready()
}

func healthy(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

func registerGauges(registerer prometheus.Registerer, g *Gateway) {
	factory := promauto.With(registerer)
	gauge := func(name, help string, read func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	gauge("rouse_gateway_requests_waiting", "Requests that wait for a pod.", func() int {
		waiting, _ := g.load.Totals()
		return waiting
	})
	gauge("rouse_gateway_requests_running", "Requests that a pod has.", func() int {
		_, running := g.load.Totals()
		return running
	})
	gauge("rouse_gateway_ports_open", "Ports of Functions that are open.", g.ports.Open)
}

// crowded counts connections to the ports of Functions that were too many for a caller, a Function, its namespace or all.
type crowded struct{ evicted, refused prometheus.Counter }

func newCrowded(registerer prometheus.Registerer) crowded {
	factory := promauto.With(registerer)
	return crowded{
		evicted: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_connections_evicted_total", Help: "Connections of callers that were closed for further ones, as their callers were slowest.",
		}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_connections_refused_total", Help: "Connections of callers that were closed at once, as there was no place and no slow caller.",
		}),
	}
}

func (c crowded) count(evicted int, refused bool) {
	c.evicted.Add(float64(evicted))
	if refused {
		c.refused.Inc()
	}
}
