package entrance

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/internal/activation"
)

type connKey struct{}

// withConn remembers on which connection a request comes.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// bounded hands requests over within their bounds, and without what their clients must not say.
func (e *Entrance) bounded(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := r.Context().Value(connKey{}).(*conn)
		if from == nil {
			http.Error(w, "the request has no connection", http.StatusInternalServerError)
			return
		}
		if r.Method == "PRI" { // net/http leaves the preface of HTTP/2 to handlers, where it is spoken in the clear
			w.Header().Set("Connection", "close")
			http.Error(w, "HTTP/2 is spoken over TLS alone", http.StatusBadRequest)
			return
		}
		if !e.clients.begin(from.of) {
			e.metrics.refused.WithLabelValues(refusedRequest).Inc()
			w.Header().Set("Retry-After", "1")
			w.Header().Set(activation.HeaderRefused, activation.RefusedOverload)
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
			return
		}
		defer e.clients.end(from.of)
		e.handlers.Add(1)
		defer e.handlers.Done()
		// The server's own limit is for the whole of a request, and would end streams.
		controller := http.NewResponseController(w)
		if r.ContentLength == 0 {
			_ = controller.SetReadDeadline(time.Time{})
		} else {
			limited := newBody(r, controller, e.options.BodyTimeout, e.options.ReadTimeout)
			defer limited.finish()
			r.Body, w = limited, &limitedWriter{w, limited}
		}
		if r.ProtoMajor > 1 {
			stream := newStreamWriter(w, controller, e.options.ReadTimeout)
			defer stream.finish()
			w = stream
		}
		cleanHeaders(r.Header, from.of.trusted, from.secure)
		handler.ServeHTTP(w, r)
	})
}
