package entrance

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
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
		client, ok := e.begin(w, r, from)
		if !ok {
			w.Header().Set("Retry-After", "1")
			w.Header().Set(activation.HeaderRefused, activation.RefusedOverload)
			http.Error(w, "too many requests of this address, or of all, are being answered", http.StatusServiceUnavailable)
			return
		}
		defer client.end()
		e.handlers.Add(1)
		defer e.handlers.Done()
		w = &measuredWriter{w, client}
		// The server's own limit is for the whole of a request, and would end streams.
		if r.ContentLength == 0 {
			_ = client.setReadDeadline(time.Time{})
		} else {
			limited := newBody(r, client, e.options.BodyTimeout, e.options.ReadTimeout)
			defer limited.finish()
			r.Body, w = limited, &limitedWriter{w, limited}
		}
		if r.ProtoMajor > 1 {
			stream := newStreamWriter(w, e.options.ReadTimeout)
			defer stream.finish()
			w = stream
		}
		cleanHeaders(r.Header, from.key.Unshared, from.secure)
		handler.ServeHTTP(w, r.WithContext(forward.With(r.Context(), &client.caller)))
	})
}

// begin gives a request a place, if need be that of a slower one.
func (e *Entrance) begin(w http.ResponseWriter, r *http.Request, from *conn) (*request, bool) {
	client := &request{from: from, http1: r.ProtoMajor == 1, controller: http.NewResponseController(w)}
	client.caller = forward.Caller{Client: client, Key: from.key}
	if from.key.Unshared {
		client.caller.Key = e.proxies.clientOf(r.Header, from.key)
	}
	ok, evicted := e.requests.Take(&client.Place, client, client.caller.Key)
	e.metrics.full(whatRequest, evicted, !ok)
	if ok && !client.http1 {
		from.add(client)
	}
	return client, ok
}
