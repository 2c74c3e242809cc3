package eventbridge

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// publicHandler serves health beside the publish paths.
func (b *Bridge) publicHandler(publish http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", b.ready)
	mux.HandleFunc("/started", b.started)
	mux.Handle("/", b.leaving(publish))
	return mux
}

// leaving ends connections while the process stops. A Service leads only new ones to other replicas, and a publisher
// whose connection is closed between two requests of its own never notices.
func (b *Bridge) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// started is 500 until NATS was reached for the first time, so that an upgrade replaces no replica by one that can store
// nothing yet. Without NATS later on publishers shall get that answer from a replica, which stays.
func (b *Bridge) started(w http.ResponseWriter, _ *http.Request) {
	if !b.reached.Load() && b.deps.Store.Connected() {
		b.reached.Store(true)
	}
	switch {
	case b.stopping.Load():
		answer(w, http.StatusInternalServerError, "stopping")
	case !b.reached.Load():
		answer(w, http.StatusInternalServerError, "NATS was not reached yet")
	default:
		answer(w, http.StatusOK, "ok")
	}
}

// metricsAtATime bounds how often all metrics are in memory.
const metricsAtATime = 4

// metricsHandler serves metrics on every path, as Kyma's publisher proxy does, but for health.
func (b *Bridge) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", b.ready)
	mux.Handle("/", promhttp.HandlerFor(b.deps.Registry, promhttp.HandlerOpts{
		Registry: b.deps.Registry, MaxRequestsInFlight: metricsAtATime,
	}))
	return mux
}

// ready is 500 when not, which is the publisher proxy's status.
func (b *Bridge) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case b.stopping.Load():
		answer(w, http.StatusInternalServerError, "stopping")
	case !b.deps.Store.Connected():
		answer(w, http.StatusInternalServerError, "no connection to NATS JetStream server")
	default:
		answer(w, http.StatusOK, "ok")
	}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a prober that is gone does not matter
}
