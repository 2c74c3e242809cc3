package ingress

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
)

// Publisher stores events. Its errors are, or wrap, those of this package where one fits.
type Publisher interface {
	// Publish returns nil after the event is stored.
	Publish(ctx context.Context, ev *cloudevent.Event) error
	// PublishLegacy is Publish for an event that Subscriptions may also know by an old type. "" is none.
	PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error
	// PublishAll stores several in their order, and returns an error or nil for each.
	PublishAll(ctx context.Context, events []*cloudevent.Event) []error
}

// Deps are what the handler works with.
type Deps struct {
	Publisher     Publisher
	Subscriptions Subscriptions // nil where they are not known
	Authorize     Authorize     // nil lets every client publish everything
	Chains        *chain.Chains // nil takes no pass
	Destination   string        // what backend metrics call the store of the events
	Connected     func() bool
	Registerer    prometheus.Registerer
	Log           logr.Logger
}

// New makes the handler of all publish paths. Unknown paths get 404, wrong methods 405.
func New(deps Deps, options Options) http.Handler {
	h := newHandler(deps, options)
	mux := http.NewServeMux()
	mux.HandleFunc(publishPattern, h.publish)
	mux.HandleFunc("POST "+legacyPath, h.publishLegacy)
	mux.HandleFunc("GET "+subscribedPath, h.subscribed)
	return h.metrics.instrument(mux)
}

func newHandler(deps Deps, options Options) *handler {
	memory := &budget{limit: options.MaxBytesInFlight}
	if deps.Chains == nil {
		deps.Chains = chain.New(chain.Key{}, 1)
	}
	return &handler{
		publisher:     deps.Publisher,
		subscriptions: deps.Subscriptions,
		authorize:     deps.Authorize,
		chains:        deps.Chains,
		options:       options,
		memory:        memory,
		places:        fair.NewPool(fair.Limits{Total: int64(options.MaxPending)}),
		answers:       &budget{limit: options.MaxBytesInFlight / answerShare},
		asking:        make(chan struct{}, subscribedAtATime),
		metrics:       newMetrics(deps, options, memory),
		log:           deps.Log,
	}
}

type handler struct {
	publisher     Publisher
	subscriptions Subscriptions
	authorize     Authorize
	chains        *chain.Chains
	options       Options
	memory        *budget    // of what has arrived
	places        *fair.Pool // of events that wait to be stored
	answers       *budget    // of answers about batches and about Subscriptions
	asking        chan struct{}
	metrics       *metrics
	log           logr.Logger
}

func (h *handler) publish(w http.ResponseWriter, r *http.Request) {
	may, err := h.permission(r)
	if err != nil {
		respond(w, refusal(err))
		return
	}
	if mediaType(r.Header.Get("Content-Type")) == typeBatch {
		results, resp := h.publishBatch(w, r, may)
		h.respondAll(w, results, resp)
		return
	}
	respond(w, h.publishOne(w, r, may))
}

// publishOne gives the memory of the event back before it is answered: a publisher that does not read its answer holds none.
func (h *handler) publishOne(w http.ResponseWriter, r *http.Request, may Permission) response {
	body, held, err := h.memory.read(w, r, h.options.MaxRequestSize)
	defer h.memory.release(held)
	if err != nil {
		return refusal(err)
	}
	ev, err := decode(r.Header, body, time.Now())
	if err == nil {
		err = may(&ev, "")
	}
	pass := h.chains.Shown(r.Header)
	if err == nil {
		err = h.chains.Admit(pass, &ev)
	}
	if err != nil {
		return refusal(err)
	}
	return h.store(r, pass, &ev)
}

// store gives an event to the publisher, and returns the response to its sender.
func (h *handler) store(r *http.Request, pass *chain.Pass, ev *cloudevent.Event) response {
	started := time.Now()
	var failed error
	busy := h.inPlaces(r, ev.Publisher, 1, func(ctx context.Context) { failed = h.publisher.Publish(ctx, ev) })
	err := cmp.Or(busy, failed)
	return h.settle(pass, ev, err, time.Since(started))
}

// untilStored is a request's context for its publish, which goes on when the sender of the event is gone: until then the
// event takes memory that counts.
func untilStored(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// settle counts and logs what became of an event, and returns the response to its publisher.
func (h *handler) settle(pass *chain.Pass, ev *cloudevent.Event, err error, took time.Duration) response {
	resp := responseFor(err)
	h.metrics.stored(resp.status, took)
	if err == nil {
		h.chains.Count(pass, 1)
		h.metrics.published.count(ev)
	}
	log := h.log.V(1)
	switch {
	case !log.Enabled():
	case err == nil:
		log.Info("event stored", "id", ev.ID)
	case resp.status >= http.StatusInternalServerError:
		log.Info("event not stored", "id", ev.ID, "status", resp.status, "reason", err.Error())
	}
	return resp
}
