package admin

import (
	"context"
	"net/http"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/daemon"
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
