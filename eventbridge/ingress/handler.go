package ingress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
)

// Publisher stores events. Its errors are or wrap those of package failure.
type Publisher interface {
	// Publish returns nil after the event is stored.
	Publish(ctx context.Context, ev *cloudevent.Event) error
	// PublishLegacy is Publish for an event that Subscriptions may also know by an old type, empty without one.
	PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error
	// PublishAll stores several events in order, and returns an error or nil for each.
	PublishAll(ctx context.Context, events []*cloudevent.Event) []error
}

// Deps are the dependencies of the handler.
type Deps struct {
	Publisher     Publisher
	Delay         Delay         // nil refuses events that are due later
	Subscriptions Subscriptions // nil when they are not known
	Authorize     Authorize     // nil allows every client to publish everything
	Chains        *chain.Chains // nil ignores passes
	Destination   string        // the store's name in backend metrics
	Connected     func() bool
	Registerer    prometheus.Registerer
	Log           logr.Logger
}

// Handler answers all publish paths. Unknown paths get 404, wrong methods 405.
type Handler struct {
	http.Handler

	to *handler
}

// New returns a Handler.
func New(deps Deps, options Options) *Handler {
	h := newHandler(deps, options)
	mux := http.NewServeMux()
	mux.HandleFunc(publishPattern, h.publish)
	mux.HandleFunc("POST "+legacyPath, withoutDelay(h.publishLegacy))
	mux.HandleFunc("GET "+subscribedPath, h.subscribed)
	return &Handler{h.metrics.instrument(mux), h}
}

// Store stores an event that is not a request's own, and responds as to one. It reports whether the event is stored.
func (h *Handler) Store(w http.ResponseWriter, r *http.Request, ev *cloudevent.Event) bool {
	resp := h.to.store(r, nil, ev)
	respond(w, resp)
	return resp.status == http.StatusNoContent
}

type permissionKey struct{}

// Permit returns a request that needs no token: may decides about its events.
func Permit(r *http.Request, may Permission) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), permissionKey{}, may))
}

func newHandler(deps Deps, options Options) *handler {
	memory := &bodyMemory{limit: options.MaxBytesInFlight}
	if deps.Chains == nil {
		deps.Chains = chain.New(chain.Key{}, 1)
	}
	return &handler{
		publisher:     deps.Publisher,
		delay:         deps.Delay,
		subscriptions: deps.Subscriptions,
		authorize:     deps.Authorize,
		chains:        deps.Chains,
		options:       options,
		memory:        memory,
		places:        fair.NewPool(fair.Limits{Total: int64(options.MaxPending)}),
		answers:       &bodyMemory{limit: options.MaxBytesInFlight / answerShare},
		asking:        make(chan struct{}, subscribedAtATime),
		metrics:       newMetrics(deps, options, memory),
		log:           deps.Log,
	}
}

type handler struct {
	publisher     Publisher
	delay         Delay
	subscriptions Subscriptions
	authorize     Authorize
	chains        *chain.Chains
	options       Options
	memory        *bodyMemory // of arrived bodies
	places        *fair.Pool  // of events that wait to be stored
	answers       *bodyMemory // of responses to batches and about Subscriptions
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
	due, err := dueOf(r.Header, time.Now())
	if err != nil {
		respond(w, refusal(err))
		return
	}
	if mediaType(r.Header.Get("Content-Type")) == typeBatch {
		results, resp := h.publishBatch(w, r, may, due)
		h.respondAll(w, results, resp)
		return
	}
	respond(w, h.publishOne(w, r, may, due))
}

// publishOne releases the memory of the event before the response, so that a publisher that does not read its response
// holds none.
func (h *handler) publishOne(w http.ResponseWriter, r *http.Request, may Permission, due time.Time) response {
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
	if !due.IsZero() {
		if resp, later := h.delayOne(r, pass, &ev, due); later {
			return resp
		}
	}
	return h.store(r, pass, &ev)
}

// store stores an event and returns the response to its publisher.
func (h *handler) store(r *http.Request, pass *chain.Pass, ev *cloudevent.Event) response {
	started := time.Now()
	var failed error
	busy := h.inPlaces(r, ev.Publisher, 1, func(ctx context.Context) { failed = h.publisher.Publish(ctx, ev) })
	err := cmp.Or(busy, failed)
	return h.settle(pass, ev, err, time.Since(started))
}

// untilStored detaches a publish from its request: it continues when the publisher disconnects, because the event's
// memory counts until it ends.
func untilStored(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// settle counts and logs the result of a publish and returns the response.
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

var (
	// ErrUnauthenticated is returned by Authorize for a client without a valid token.
	ErrUnauthenticated = errors.New("publishing needs the header Authorization: Bearer <token>, with a token of a ServiceAccount for this eventbridge")
	// ErrUndecided is returned by Authorize while the API server cannot review a token.
	ErrUndecided = errors.New("the token cannot be checked now")
	// ErrForbidden is returned by a Permission for an event that the client may not publish.
	ErrForbidden = errors.New("this may not be published")
)

// Authorize returns the Permission of a token, "" for none, or ErrUnauthenticated or ErrUndecided.
type Authorize func(ctx context.Context, token string) (Permission, error)

// Permission returns ErrForbidden for an event that may not be published under its type or, if that is not empty, its
// old type. It sets the Publisher of an allowed event.
type Permission func(ev *cloudevent.Event, oldType string) error

func anything(*cloudevent.Event, string) error { return nil }

// errOtherOrigin rejects requests that a browser sends for a web page of another site.
var errOtherOrigin = fmt.Errorf("%w: a web page of another origin sent it with a content type that needs no CORS preflight; "+
	"publish with application/json or application/cloudevents+json, through a gateway whose CORS policy allows the page", ErrForbidden)

var sameOrigin = http.NewCrossOriginProtection()

// checkOrigin rejects requests that any web page can send without a CORS preflight, which no publish path answers.
// Browsers send the origin of a request; other clients do not.
func checkOrigin(r *http.Request) error {
	switch mediaType(r.Header.Get("Content-Type")) {
	case "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data":
		if sameOrigin.Check(r) != nil {
			return errOtherOrigin
		}
	}
	return nil
}

// permission authorizes before any of the body is read.
func (h *handler) permission(r *http.Request) (Permission, error) {
	if err := checkOrigin(r); err != nil {
		return nil, err
	}
	if may, permitted := r.Context().Value(permissionKey{}).(Permission); permitted {
		return may, nil
	}
	if h.authorize == nil {
		return anything, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	return h.authorize(r.Context(), strings.TrimSpace(token))
}

// Options bound what publishers may send.
type Options struct {
	MaxRequestSize     int64 // bytes of an event as sent: of a request body, or of its part of a batch
	MaxBatchSize       int64 // bytes of a batch, which may also be as large as one event
	MaxBatchEvents     int   // events of a batch
	MaxBytesInFlight   int64 // bytes of all requests in progress
	MaxPending         int   // events that wait to be stored; the store has the flag
	MaxConnections     int   // publishers' connections, for the server of the handler
	MaxEventTypeSeries int   // pairs of type and source with their own series
}

// DefaultOptions accepts events up to 64 KiB, in batches up to 1 MiB.
func DefaultOptions() Options {
	return Options{
		MaxRequestSize:     64 << 10,
		MaxBatchSize:       1 << 20,
		MaxBatchEvents:     256,
		MaxBytesInFlight:   64 << 20,
		MaxPending:         1024,
		MaxConnections:     2048,
		MaxEventTypeSeries: 500,
	}
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Int64(&o.MaxRequestSize, "max-request-size",
		"largest event in bytes, as it is sent; NATS has to take it too (max_payload)").AtLeast(1)
	fs.Int64(&o.MaxBatchSize, "max-batch-size", "largest batch of events in bytes").AtLeast(1)
	fs.Int(&o.MaxBatchEvents, "max-batch-events", "most events of a batch, and not more than --publish-max-pending").AtLeast(1)
	fs.Int64(&o.MaxBytesInFlight, "publish-max-bytes",
		"bytes of events that may wait to be stored at a time; further requests get 429").
		Must(o.MaxBytesInFlight >= o.largestBody(), "be at least --max-request-size and --max-batch-size")
	fs.Int(&o.MaxConnections, "publish-max-connections",
		"maximum connections of publishers; a further one closes those that have waited longest for their publisher").AtLeast(1)
	fs.Int(&o.MaxEventTypeSeries, "event-type-series",
		"pairs of type and source with their own series in the metrics; others share one").AtLeast(0)
}

// largestBody returns the maximum size of a batch: at least that of one event, so that every event fits into a batch.
func (o *Options) largestBody() int64 { return max(o.MaxBatchSize, o.MaxRequestSize) }
