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
	// PublishLegacy is Publish for an event that Subscriptions may also know by an old type. "" is none.
	PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error
}

// Deps are what the handler works with.
type Deps struct {
	Publisher     Publisher
	Subscriptions Subscriptions // nil where nobody knows them
	Destination   string        // what backend metrics call the place that events are stored at
	Connected     func() bool
	Registerer    prometheus.Registerer
	Log           logr.Logger
}

// New makes the handler of all publish paths. Unknown paths get 404, wrong methods 405.
func New(deps Deps, options Options) http.Handler {
	h := &handler{
		publisher:     deps.Publisher,
		subscriptions: deps.Subscriptions,
		maxSize:       options.MaxRequestSize,
		metrics:       newMetrics(deps.Registerer, deps.Destination, deps.Connected),
		log:           deps.Log,
	}
	mux := http.NewServeMux()
	mux.HandleFunc(publishPattern, h.publish)
	mux.HandleFunc("POST "+legacyPath, h.publishLegacy)
	mux.HandleFunc("GET "+subscribedPath, h.subscribed)
	return h.metrics.instrument(mux)
}

type handler struct {
	publisher     Publisher
	subscriptions Subscriptions
	maxSize       int64
	metrics       *metrics
	log           logr.Logger
}

func (h *handler) publish(w http.ResponseWriter, r *http.Request) {
	body, err := h.read(w, r)
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
	respond(w, h.settle(ev.ID, err, time.Since(started)))
}

// read is the whole body of a request.
func (h *handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxSize))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errTooSlow
	}
	return body, err
}

// settle counts and logs what became of an event, and says what its publisher is told.
func (h *handler) settle(id string, err error, took time.Duration) response {
	resp := responseFor(err)
	h.metrics.stored(resp.status, took)
	switch {
	case err == nil:
		h.log.V(1).Info("event stored", "id", id)
	case resp.status >= http.StatusInternalServerError:
		h.log.V(1).Info("event not stored", "id", id, "status", resp.status, "reason", err.Error())
	}
	return resp
}
