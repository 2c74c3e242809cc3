package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
)

// runTimeout bounds a redrive or purge; what is left takes another request.
const runTimeout = 5 * time.Minute

// Handler answers the API's requests.
type Handler struct {
	store     Store
	journal   Journal
	tokenFile string
	log       logr.Logger
	mux       *http.ServeMux
}

// New makes a handler. Without a journal it has no records of events.
func New(store Store, events Journal, o Options, log logr.Logger) *Handler {
	h := &Handler{store: store, journal: events, tokenFile: o.TokenFile, log: log, mux: http.NewServeMux()}
	reading, changing := make(slots, readersAtATime), make(slots, changersAtATime)
	for path, e := range map[string]struct {
		method string
		handle func(http.ResponseWriter, *http.Request) error
	}{
		"/v1/events":                 {http.MethodGet, h.events},
		"/v1/subscriptions":          {http.MethodGet, reading.limit(h.subscriptions)},
		"/v1/deadletters":            {http.MethodGet, reading.limit(h.list)},
		"/v1/deadletters/{sequence}": {http.MethodGet, reading.limit(h.get)},
		"/v1/deadletters/redrive":    {http.MethodPost, changing.limit(h.redrive)},
		"/v1/deadletters/purge":      {http.MethodPost, changing.limit(h.purge)},
	} {
		h.mux.HandleFunc(path, h.endpoint(e.method, e.handle))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h.fail(w, httpError{http.StatusNotFound, "there is no such path"})
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := authorize(r, h.tokenFile); err != nil {
		h.fail(w, err)
		return
	}
	h.mux.ServeHTTP(w, r)
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

func (h *Handler) endpoint(method string, handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			h.fail(w, httpError{http.StatusMethodNotAllowed, "use " + method})
			return
		}
		if err := handle(w, r); err != nil {
			h.fail(w, err)
		}
	}
}

func (h *Handler) subscriptions(w http.ResponseWriter, r *http.Request) error {
	all, err := h.store.Subscriptions(r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []Subscription{}
	}
	answer(w, http.StatusOK, struct {
		Subscriptions []Subscription `json:"subscriptions"`
	}{all})
	return nil
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request) error {
	query, err := queryOf(r.URL.Query())
	if err != nil {
		return err
	}
	page, err := h.store.List(r.Context(), query)
	if err != nil {
		return err
	}
	if page.DeadLetters == nil {
		page.DeadLetters = []DeadLetter{}
	}
	answer(w, http.StatusOK, page)
	return nil
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request) error {
	sequence, err := number("sequence", r.PathValue("sequence"))
	if err != nil {
		return err
	}
	found, err := h.store.Get(r.Context(), sequence)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, found)
	return nil
}

func (h *Handler) redrive(w http.ResponseWriter, r *http.Request) error {
	selection, err := selectionOf(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := withRunTimeout(w, r)
	defer cancel()
	done, err := h.store.Redrive(ctx, selection)
	h.log.Info("dead letters redriven", "namespace", selection.Namespace, "subscription", selection.Subscription,
		"redriven", done.Redriven, "failed", done.Failed, "remaining", done.Remaining)
	result := redrivenBody{
		Redriven: &done.Redriven, Failed: &done.Failed, Remaining: &done.Remaining, Problems: done.Problems,
	}
	h.finish(w, &result.Error, err, &result)
	return nil
}

func (h *Handler) purge(w http.ResponseWriter, r *http.Request) error {
	selection, err := selectionOf(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := withRunTimeout(w, r)
	defer cancel()
	count, err := h.store.Purge(ctx, selection)
	h.log.Info("dead letters purged", "namespace", selection.Namespace, "subscription", selection.Subscription, "purged", count)
	result := purgedBody{Purged: count}
	h.finish(w, &result.Error, err, &result)
	return nil
}

// finish answers with what was done, also when that ended with an error.
func (h *Handler) finish(w http.ResponseWriter, text *string, err error, result any) {
	status := http.StatusOK
	if err != nil {
		status, *text = h.judge(err)
	}
	answer(w, status, result)
}

// withRunTimeout replaces the read deadline of the request, which would end it
// while it is worked on, by runTimeout.
func withRunTimeout(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // tests' recorders have none
	return context.WithTimeout(r.Context(), runTimeout)
}
