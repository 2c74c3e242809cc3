package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/skew"
)

// Handler answers the API's requests.
type Handler struct {
	store   Store
	journal Journal
	access  identity.Access
	log     logr.Logger
	mux     *http.ServeMux
	side    skew.Side
}

// action is what a request asks for: the right that it needs, and what is done for a user who has it.
type action struct {
	right identity.Right
	do    func(w http.ResponseWriter, r *http.Request, user identity.User) error
}

// endpoint is a path of the API.
type endpoint struct {
	method string
	// read finds out what a request asks for, and does nothing yet.
	read  func(w http.ResponseWriter, r *http.Request) (action, error)
	slots *slots
}

// New makes a handler. Without a journal it has no records of events.
func New(store Store, events Journal, access identity.Access, log logr.Logger) *Handler {
	h := &Handler{store: store, journal: events, access: access, log: log, mux: http.NewServeMux(), side: skew.This(daemon.Version())}
	reading, changing, following := newSlots(readersAtATime, slotTurn), newSlots(changersAtATime, slotTurn), newSlots(followersAtATime, 0)
	for path, e := range map[string]endpoint{
		"/v1/events":                 {http.MethodGet, h.events, following},
		"/v1/subscriptions":          {http.MethodGet, h.subscriptions, reading},
		"/v1/deadletters":            {http.MethodGet, h.list, reading},
		"/v1/deadletters/{sequence}": {http.MethodGet, h.get, reading},
		"/v1/deadletters/redrive":    {http.MethodPost, h.redrive, changing},
		"/v1/deadletters/purge":      {http.MethodPost, h.purge, changing},
	} {
		h.mux.HandleFunc(path, h.serve(e))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h.fail(w, httpError{http.StatusNotFound, skew.NoSuchPath})
	})
	return h
}

// userKey is where a request's context has its user.
type userKey struct{}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, err := h.access.Authenticate(r)
	if err != nil {
		h.fail(w, err)
		return
	}
	w.Header().Set(skew.Header, h.side.String()) // strangers do not learn the version
	if client, told := skew.Parse(r.Header.Get(skew.Header)); told {
		if err := skew.Serves(h.side, client); err != nil {
			h.fail(w, httpError{http.StatusBadRequest, err.Error()})
			return
		}
	}
	h.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
}

// Until is the handler with requests that end when ctx does.
func (h *Handler) Until(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requestCtx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		h.ServeHTTP(w, r.WithContext(requestCtx))
	})
}

// serve has a request judged before it takes a slot.
func (h *Handler) serve(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != e.method {
			w.Header().Set("Allow", e.method)
			h.fail(w, httpError{http.StatusMethodNotAllowed, "use " + e.method})
			return
		}
		if e.method == http.MethodGet { // read takes the others' bodies
			if err := daemon.WithoutBody(w, r); err != nil {
				h.fail(w, httpError{http.StatusBadRequest, err.Error()})
				return
			}
		}
		user, _ := r.Context().Value(userKey{}).(identity.User)
		asked, err := e.read(w, r)
		if err == nil {
			err = h.access.Authorize(r.Context(), user, asked.right)
		}
		if err == nil {
			withoutReadDeadline(w)
			err = e.slots.limit(r.Context(), asked.right.Namespace, func(ctx context.Context) error { return asked.do(w, r.WithContext(ctx), user) })
		}
		if err != nil {
			h.fail(w, err)
		}
	}
}

// Options of the API.
type Options struct {
	Address string // host:port to listen on; empty: there is no API
}

// DefaultOptions have the API switched off.
func DefaultOptions() Options { return Options{} }

// BindFlags adds the flags; what o holds is their default.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Address, "admin-address", o.Address, "address of the API for dead letters and events, for example :9091; empty: none")
}

// Validate names every option that cannot work.
func (o *Options) Validate() error {
	if o.Address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return fmt.Errorf("--admin-address %q: %w", o.Address, err)
	}
	return nil
}

// Bounds of requests at a time. Each that reads holds a page or a dead letter, several times while it is written as JSON, until
// its client has read the answer; each that changes something holds a batch of dead letters.
const (
	readersAtATime  = 4
	changersAtATime = 2
	// followersAtATime leave connections to other requests. They hold a few records each.
	followersAtATime = 96
	waitingAtATime   = 64
	// slotTurn is how long a request keeps its slot while one for another namespace waits. A batch that is under way then is finished.
	slotTurn = 5 * time.Second
	// answerTimeout bounds how long a client may take to read an answer.
	answerTimeout = 10 * time.Second
	// slotWait bounds how long a request waits: longer than the turn, the batch and the answer of one before it.
	slotWait = 30 * time.Second
)

var (
	errNoSlot   = httpError{http.StatusServiceUnavailable, "this eventbridge answers as many such requests as it may at a time, try again"}
	errTurnOver = httpError{
		http.StatusServiceUnavailable,
		fmt.Sprintf("requests for other namespaces wait, so this one was stopped after %s: ask again for the rest", slotTurn),
	}
)

// slots bound the requests at a time, and share them by the namespace that is asked about; those about all namespaces are one more.
type slots struct {
	pool *fair.Pool
	turn time.Duration // how long a request keeps its slot while others wait; 0: to its end

	mu      sync.Mutex
	waiting map[string]int // requests by namespace
}

func newSlots(atATime int64, turn time.Duration) *slots {
	return &slots{pool: fair.NewPool(fair.Limits{Total: atATime, Waiting: waitingAtATime}), turn: turn, waiting: map[string]int{}}
}

// limit has a request wait for a slot, which it keeps until it is answered. The context that it passes on ends before, with the cause
// errTurnOver, when others wait.
func (s *slots) limit(ctx context.Context, namespace string, do func(ctx context.Context) error) error {
	if err := s.acquire(ctx, namespace); err != nil {
		return err
	}
	defer s.pool.Release(namespace, 1)
	if s.turn == 0 {
		return do(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.endTurn(ctx, cancel, namespace)
	return do(ctx)
}

func (s *slots) acquire(ctx context.Context, namespace string) error {
	waiting, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	s.wait(namespace, 1)
	defer s.wait(namespace, -1)
	switch err := s.pool.Acquire(waiting.Done(), namespace, 1); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return errNoSlot
	}
}

func (s *slots) wait(namespace string, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[namespace] += requests; s.waiting[namespace] == 0 {
		delete(s.waiting, namespace)
	}
}

func (s *slots) othersWait(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.waiting {
		if other != namespace {
			return true
		}
	}
	return false
}

// endTurn returns when the request is answered.
func (s *slots) endTurn(ctx context.Context, cancel context.CancelCauseFunc, namespace string) {
	turn := time.NewTicker(s.turn)
	defer turn.Stop()
	for {
		select {
		case <-turn.C:
			if s.othersWait(namespace) {
				cancel(errTurnOver)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
