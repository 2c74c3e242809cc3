package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/skew"
)

// Deps are the dependencies of a Handler.
type Deps struct {
	Store   Store
	Journal Journal // nil: there are no records of events
	Wakes   Wakes
	Timers  Timers     // nil: nothing is due later
	Types   EventTypes // nil: no type has a schema
	Access  identity.Access
	Log     logr.Logger
}

// Handler serves the admin API.
type Handler struct {
	store   Store
	journal Journal
	wakes   Wakes
	timers  Timers
	types   EventTypes
	access  identity.Access
	log     logr.Logger
	mux     *http.ServeMux
	side    skew.Side
}

// action is a parsed request: the right that it requires, and what to do for a user who has it.
type action struct {
	right identity.Right
	do    func(w http.ResponseWriter, r *http.Request, user identity.User) error
}

// endpoint is a path of the API.
type endpoint struct {
	method string
	// read parses a request and changes nothing.
	read  func(w http.ResponseWriter, r *http.Request) (action, error)
	slots *slots
}

// New returns a Handler.
func New(deps Deps) *Handler {
	h := &Handler{
		store: deps.Store, journal: deps.Journal, wakes: deps.Wakes, timers: deps.Timers, types: deps.Types, access: deps.Access, log: deps.Log,
		mux: http.NewServeMux(), side: skew.This(daemon.Version()),
	}
	reading, changing, following := newSlots(readersAtATime, slotTurn), newSlots(changersAtATime, slotTurn), newSlots(followersAtATime, 0)
	for path, e := range map[string]endpoint{
		"/v1/events":                         {http.MethodGet, h.events, following},
		"/v1/subscriptions":                  {http.MethodGet, h.subscriptions, reading},
		"/v1/kyma":                           {http.MethodGet, h.kyma, reading},
		"/v1/subscriptions/retry":            {http.MethodPost, h.retry, changing},
		"/v1/eventtypes":                     {http.MethodGet, h.eventTypes, reading},
		"/v1/wakes":                          {http.MethodGet, h.lastWakes, reading},
		"/v1/deadletters":                    {http.MethodGet, h.list, reading},
		"/v1/deadletters/{sequence}":         {http.MethodGet, h.get, reading},
		"/v1/deadletters/{sequence}/redrive": {http.MethodPost, h.redriveEdited, changing},
		"/v1/deadletters/redrive":            {http.MethodPost, h.redrive, changing},
		"/v1/deadletters/purge":              {http.MethodPost, h.purge, changing},
		"/v1/delayed":                        {http.MethodGet, h.delayed, reading},
		"/v1/delayed/cancel":                 {http.MethodPost, h.cancelDelayed, changing},
		"/v1/schedules":                      {http.MethodGet, h.schedules, reading},
		"/v1/schedules/run":                  {http.MethodPost, h.runSchedule, changing},
	} {
		h.mux.HandleFunc(path, h.serve(e))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h.fail(w, httpError{http.StatusNotFound, skew.NoSuchPath})
	})
	return h
}

// userKey is the context key of a request's user.
type userKey struct{}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, err := h.access.Authenticate(r)
	if err != nil {
		h.fail(w, err)
		return
	}
	w.Header().Set(skew.Header, h.side.String()) // unauthenticated clients do not learn the version
	if client, told := skew.Parse(r.Header.Get(skew.Header)); told {
		if err := skew.Serves(h.side, client); err != nil {
			h.fail(w, httpError{http.StatusBadRequest, err.Error()})
			return
		}
	}
	h.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
}

// serve authorizes a request before it takes a slot.
func (h *Handler) serve(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != e.method {
			w.Header().Set("Allow", e.method)
			h.fail(w, httpError{http.StatusMethodNotAllowed, "use " + e.method})
			return
		}
		if e.method == http.MethodGet { // read consumes the bodies of other methods
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
	Address string // host:port to listen on; empty disables the API
}

// DefaultOptions disables the API.
func DefaultOptions() Options { return Options{} }

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	_, _, err := net.SplitHostPort(o.Address)
	fs.String(&o.Address, "admin-address", "address of the API for dead letters and events, for example :9091; empty: none").
		Must(o.Address == "" || err == nil, "be host:port")
}

// Bounds of concurrent requests. A reading request holds a page or a dead letter, several times while it is encoded as
// JSON, until its client has read the response; a changing request holds a batch of dead letters.
const (
	readersAtATime  = 4
	changersAtATime = 2
	// followersAtATime leaves connections to other requests. A follower holds a few records.
	followersAtATime = 96
	waitingAtATime   = 64
	// slotTurn is how long a request holds its slot while one for another namespace waits. It completes the batch that
	// is in progress.
	slotTurn = 5 * time.Second
	// answerTimeout bounds how long a client may take to read a response.
	answerTimeout = 10 * time.Second
	// slotWait bounds how long a request waits: longer than the turn, the batch and the response of one before it.
	slotWait = 30 * time.Second
)

var (
	errNoSlot   = httpError{http.StatusServiceUnavailable, "this eventbridge has too many such requests in progress, try again"}
	errTurnOver = httpError{
		http.StatusServiceUnavailable,
		fmt.Sprintf("requests for other namespaces wait, so this one was stopped after %s: ask again for the rest", slotTurn),
	}
)

// slots bounds concurrent requests and shares them by the requested namespace; requests for all namespaces count as one
// more.
type slots struct {
	pool *fair.Pool
	turn time.Duration // how long a request holds its slot while others wait; 0: until it completes

	mu      sync.Mutex
	waiting map[string]int // requests by namespace
}

func newSlots(atATime int64, turn time.Duration) *slots {
	return &slots{pool: fair.NewPool(fair.Limits{Total: atATime, Waiting: waitingAtATime}), turn: turn, waiting: map[string]int{}}
}

// limit runs do in a slot. The context of do ends earlier, with the cause errTurnOver, when others wait.
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

// endTurn returns when the request completes.
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
