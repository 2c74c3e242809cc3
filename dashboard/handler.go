package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Deps are what a home provides.
type Deps struct {
	About       About
	Access      Access
	Sessions    *Sessions // nil: nobody logs in, and Access says who the user is
	State       State
	Events      Events
	Lines       Lines
	DeadLetters DeadLetters
	Publisher   Publisher
	Caller      Caller
	// Manager, Author and Doctor are nil where there is none: the API lacks their paths.
	Manager Manager
	Author  Author
	Doctor  Doctor
	// Watcher is nil where no alerts are watched.
	Watcher Watcher

	Log logr.Logger
}

// Handler serves the pages and the API.
type Handler struct {
	deps     Deps
	pages    pages
	api      *http.ServeMux
	streams  *fair.Pool
	examined examinations
}

// maxStreams bounds the streams of all users. One user has at most as many as are left to others.
const maxStreams = 128

// action serves a request of a known user.
type action func(w http.ResponseWriter, r *http.Request, user User) error

// New returns a Handler.
func New(deps Deps) (*Handler, error) {
	files, err := readPages(deps.Sessions != nil)
	if err != nil {
		return nil, err
	}
	h := &Handler{deps: deps, pages: files, api: http.NewServeMux(), streams: fair.NewPool(fair.Limits{Total: maxStreams})}
	for pattern, do := range h.actions() {
		h.api.HandleFunc(pattern, h.serve(do))
	}
	if deps.Sessions != nil {
		deps.Sessions.mount(h)
	}
	h.api.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "there is no such path, or not with this method: see docs/dashboard.md")
	})
	h.api.Handle("/", files)
	return h, nil
}

// actions returns what the API does, by pattern.
func (h *Handler) actions() map[string]action {
	all := map[string]action{
		"GET /api/v1/about":                              h.about,
		"GET /api/v1/snapshot":                           h.snapshot,
		"GET /api/v1/live":                               h.live,
		"GET /api/v1/functions/{namespace}/{name}":       h.function,
		"GET /api/v1/functions/{namespace}/{name}/log":   h.log,
		"GET /api/v1/functions/{namespace}/{name}/build": h.build,
		"GET /api/v1/events":                             h.events,
		"GET /api/v1/events/live":                        h.eventsLive,
		"GET /api/v1/event":                              h.event,
		"GET /api/v1/trace":                              h.trace,
		"GET /api/v1/deadletters":                        h.deadLetters,
		"GET /api/v1/deadletters/{sequence}":             h.deadLetter,
		"POST /api/v1/deadletters/redrive":               h.changing(h.redrive),
		"POST /api/v1/deadletters/purge":                 h.changing(h.purge),
		"POST /api/v1/publish":                           h.changing(h.publish),
		"POST /api/v1/functions/{namespace}/{name}/call": h.changing(h.call),
	}
	if h.deps.Manager != nil {
		all["POST /api/v1/functions/{namespace}/{name}/rollback"] = h.changing(h.rollback)
		all["POST /api/v1/functions/{namespace}/{name}/pause"] = h.changing(h.pauseFunction)
		all["POST /api/v1/subscriptions/{namespace}/{name}/pause"] = h.changing(h.pauseSubscription)
	}
	if h.deps.Author != nil {
		all["GET /api/v1/functions/{namespace}/{name}/draft"] = h.draft
		all["POST /api/v1/drafts"] = h.changing(h.write)
	}
	if h.deps.Doctor != nil {
		all["GET /api/v1/health"] = h.health
	}
	return all
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	h.api.ServeHTTP(w, r)
}

// foreign reports whether a browser sent a request for a page of another origin, other ports of this host included.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // an older browser, which names the origin of what is not a simple GET, or no browser
		origin := r.Header.Get("Origin")
		return origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host
	default:
		return true
	}
}

// serve authenticates the user of a request before anything of it is read.
func (h *Handler) serve(do action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if foreign(r) {
			fail(w, http.StatusForbidden, otherOrigin)
			return
		}
		user, r, end, err := h.authenticate(r)
		defer end()
		if err == nil && r.Method != http.MethodPost { // those have a body, which is read within bounds
			if err = daemon.WithoutBody(w, r); err != nil {
				err = Error{http.StatusBadRequest, err.Error()}
			}
		}
		if err == nil {
			err = do(w, r, user)
		}
		if err != nil {
			h.explain(w, r, err)
		}
	}
}

// authenticate returns the user of a request, and the request until the user's session ends.
func (h *Handler) authenticate(r *http.Request) (user User, bound *http.Request, end func(), err error) {
	if h.deps.Sessions == nil {
		user, err = h.deps.Access.Authenticate(r)
		return user, r, func() {}, err
	}
	user, ctx, end, err := h.deps.Sessions.begin(r)
	if err != nil {
		return user, r, func() {}, err
	}
	return user, r.WithContext(ctx), end, nil
}

// What several requests are refused with.
const (
	contentType = "application/json"
	otherOrigin = "this request comes from a page of another origin: open the dashboard itself"
	sendJSON    = "send JSON with Content-Type: application/json"
)

// changing refuses users who may only read, and forms of other pages.
func (h *Handler) changing(do action) action {
	return func(w http.ResponseWriter, r *http.Request, user User) error {
		if !user.Changes {
			return Error{http.StatusForbidden, "you may read here and change nothing: ask the operator of this installation for the right"}
		}
		if r.Header.Get("Content-Type") != contentType {
			return Error{http.StatusUnsupportedMediaType, sendJSON}
		}
		return do(w, r, user)
	}
}

// Error is an error with a text for the user, and its status.
type Error struct {
	Status int
	Text   string
}

// Error implements error.
func (e Error) Error() string { return e.Text }

// explain responds to a request that failed, and logs what the response does not explain.
func (h *Handler) explain(w http.ResponseWriter, r *http.Request, err error) {
	known, isKnown := errors.AsType[Error](err)
	switch {
	case isKnown && known.Status == http.StatusUnauthorized && h.deps.Sessions != nil:
		answer(w, known.Status, h.deps.Sessions.loggedOut(known.Text))
	case isKnown:
		fail(w, known.Status, known.Text)
	case errors.Is(err, ErrUnauthenticated):
		w.Header().Set("WWW-Authenticate", `Bearer realm="rouse"`)
		fail(w, http.StatusUnauthorized, "log in first: "+h.deps.About.LogIn)
	case errors.Is(err, ErrNotFound), errors.Is(err, failure.ErrDeadLetterNotFound):
		fail(w, http.StatusNotFound, err.Error())
	case errors.Is(err, failure.ErrConsumerNotFound):
		fail(w, http.StatusConflict, "the Subscription takes no events: create it, or wait until it is ready; its dead letters are kept")
	case errors.Is(err, failure.ErrNotConnected), errors.Is(err, failure.ErrNoStream), errors.Is(err, failure.ErrTimeout):
		fail(w, http.StatusServiceUnavailable, "NATS does not answer: try again")
	case errors.Is(err, failure.ErrStorageFull):
		fail(w, http.StatusServiceUnavailable, "the stream is full: try again when events are delivered; dead letters are kept")
	case r.Context().Err() != nil: // the client is gone, or the process ends
	default:
		h.deps.Log.Error(err, "dashboard request failed", "path", r.URL.Path)
		fail(w, http.StatusInternalServerError, "internal error: the log of the dashboard has the reason")
	}
}

// loggedOut is the answer to somebody who has to log in: Login says with what, and Issuer is the name of where else.
type loggedOut struct {
	Error  string `json:"error"`
	Login  string `json:"login"`
	Issuer string `json:"issuer,omitempty"`
}

func fail(w http.ResponseWriter, status int, text string) {
	answer(w, status, struct {
		Error string `json:"error"`
	}{text})
}

func answer(w http.ResponseWriter, status int, content any) {
	body, status := encoded(status, content)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // it is JSON, which no browser takes for a page; the client may be gone
}

// answerMuch is answer for what may be large.
func answerMuch(w http.ResponseWriter, r *http.Request, content any) {
	body, status := encoded(http.StatusOK, content)
	w.Header().Set("Content-Type", contentType)
	to, end := packed(w, r)
	defer end()
	w.WriteHeader(status)
	_, _ = to.Write(body) // the client may be gone
}

func encoded(status int, content any) (body []byte, also int) {
	body, err := json.Marshal(content)
	if err != nil {
		return []byte(`{"error":"the answer cannot be written as JSON"}`), http.StatusInternalServerError
	}
	return body, status
}

// packed returns what writes a response, compressed where the client takes that. It holds no memory between writes, since streams last
// for long, and passes on what is written at once. The caller calls end.
func packed(w http.ResponseWriter, r *http.Request) (to io.Writer, end func()) {
	if !takesGzip(r) {
		return w, func() {}
	}
	writer, _ := gzip.NewWriterLevel(w, gzip.StatelessCompression) // the level is valid
	w.Header().Set("Content-Encoding", "gzip")
	return writer, func() { _ = writer.Close() } // the client may be gone
}

func takesGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// decode reads a JSON object of a bounded number of bytes.
func decode(w http.ResponseWriter, r *http.Request, into any, most int64) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", most)}
		}
		return Error{http.StatusBadRequest, "the body is not what this path takes: " + err.Error()}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Error{http.StatusBadRequest, "the body has more than one object"}
	}
	return nil
}

// nameOf returns the object in the path of a request.
func nameOf(r *http.Request) (types.NamespacedName, error) {
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if len(validation.IsDNS1123Label(name.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(name.Name)) > 0 {
		return name, fmt.Errorf("%w: nothing can have this name", ErrNotFound)
	}
	return name, nil
}

func (h *Handler) about(w http.ResponseWriter, _ *http.Request, user User) error {
	answer(w, http.StatusOK, struct {
		About

		User     User     `json:"user"`
		Runtimes []string `json:"runtimes"`
	}{h.deps.About, user, languages.Runtimes()})
	return nil
}

func (h *Handler) snapshot(w http.ResponseWriter, r *http.Request, user User) error {
	found, err := h.deps.State.Snapshot(r.Context(), user)
	if err == nil {
		answerMuch(w, r, found)
	}
	return err
}

func (h *Handler) function(w http.ResponseWriter, r *http.Request, user User) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	found, err := h.deps.State.Function(r.Context(), user, name)
	if err == nil {
		found.bound()
		answer(w, http.StatusOK, found)
	}
	return err
}
