package ingress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Publisher stores events.
type Publisher interface {
	// Publish returns nil after the event is stored.
	Publish(ctx context.Context, ev *cloudevent.Event) error
}

// Deps are what the handler works with.
type Deps struct {
	Publisher   Publisher
	Destination string // what backend metrics call the place that events are stored at
	Connected   func() bool
	Registerer  prometheus.Registerer
	Log         logr.Logger
}

// New makes the handler of all publish paths. Unknown paths get 404, wrong methods 405.
func New(deps Deps, options Options) http.Handler {
	h := &handler{
		publisher: deps.Publisher,
		maxSize:   options.MaxRequestSize,
		metrics:   newMetrics(deps.Registerer, deps.Destination, deps.Connected),
		log:       deps.Log,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /publish", h.publish)
	return h.metrics.instrument(mux)
}

type handler struct {
	publisher Publisher
	maxSize   int64
	metrics   *metrics
	log       logr.Logger
}

func (h *handler) publish(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxSize))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errTooSlow
	}
	var ev cloudevent.Event
	if err == nil && mediaType(r.Header.Get("Content-Type")) == typeBatch {
		err = errors.New("not supported for batch events")
	}
	if err == nil {
		ev, err = decode(r.Header, body, time.Now())
	}
	if err != nil {
		respond(w, refusal(err))
		return
	}
	started := time.Now()
	err = h.publisher.Publish(r.Context(), &ev)
	resp := responseFor(err)
	h.metrics.stored(resp.status, time.Since(started))
	switch {
	case err == nil:
		h.log.V(1).Info("event stored", "id", ev.ID)
	case resp.status >= http.StatusInternalServerError:
		h.log.V(1).Info("event not stored", "id", ev.ID, "status", resp.status, "reason", err.Error())
	}
	respond(w, resp)
}
