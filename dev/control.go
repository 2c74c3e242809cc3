package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/kedarules"
)

// Function is the status of a Function with its backlog.
type Function struct {
	runner.Status

	// Backlog is nil when it is unknown.
	Backlog *int `json:"backlog,omitempty"`
	// Scaling is nil for a Function that is not scaled.
	Scaling *kedarules.Status `json:"scaling,omitempty"`
	// Exposed lists the URLs of APIRules that lead to the Function.
	Exposed []string `json:"exposed,omitempty"`
}

// List is the response of /v1/functions.
type List struct {
	Functions []Function `json:"functions"`
}

// Subscriptions is the response of /v1/subscriptions.
type Subscriptions struct {
	Subscriptions []SubscriptionStatus `json:"subscriptions"`
}

// failure is the body of every error response.
type failure struct {
	Error string `json:"error"`
}

const (
	defaultTail = 100
	maxTail     = 100_000
)

// Functions returns the status of Functions.
type Functions interface {
	Status() []runner.Status
}

// SubscriptionList returns the status of Subscriptions; never nil, so that JSON has a list.
type SubscriptionList interface {
	Status() []SubscriptionStatus
}

// Scaling returns the backlog of a Function, if it is known, and what is known about its replicas.
type Scaling interface {
	Backlog(fn types.NamespacedName) (backlog int, known bool)
	Status(fn types.NamespacedName) *kedarules.Status
}

// Exposures returns the URLs of APIRules.
type Exposures interface {
	URLs(fn types.NamespacedName) []string
}

// Lines returns the logs of Functions.
type Lines interface {
	// Recent returns the last n lines, oldest first.
	Recent(fn types.NamespacedName, n int) []process.Line
	// Follow calls handle with the last tail lines and then with each new one until ctx ends.
	Follow(ctx context.Context, fn types.NamespacedName, tail int, handle func(process.Line))
}

// Recent returns events that were published.
type Recent interface {
	// Find returns those with one of the ids, or all without ids, that have the type, whose end may be a *.
	Find(ids []string, eventType string) []cloudevent.Event
}

// ControlDeps holds the dependencies of the control API.
type ControlDeps struct {
	Functions     Functions
	Exposures     Exposures
	Subscriptions SubscriptionList
	Scaling       Scaling
	Lines         Lines
	Recent        Recent
	// Token is the bearer token that requests have to carry.
	Token string
}

// ControlHandler serves the control API.
type ControlHandler struct {
	deps ControlDeps
	mux  *http.ServeMux
}

// NewControl returns a handler.
func NewControl(deps ControlDeps) *ControlHandler {
	h := &ControlHandler{deps: deps, mux: http.NewServeMux()}
	h.mux.HandleFunc("GET /v1/functions", h.functions)
	h.mux.HandleFunc("GET /v1/subscriptions", h.subscriptions)
	h.mux.HandleFunc("GET /v1/events", h.events)
	h.mux.HandleFunc("GET /v1/functions/{namespace}/{name}/log", h.log)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "there is no such path, or not with this method")
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *ControlHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !daemon.OnLoopback(r):
		fail(w, http.StatusMisdirectedRequest, errHost.Error())
	case !daemon.HasBearer(r, h.deps.Token):
		fail(w, http.StatusUnauthorized, errToken.Error())
	default:
		h.mux.ServeHTTP(w, r)
	}
}

func (h *ControlHandler) functions(w http.ResponseWriter, _ *http.Request) {
	list := List{Functions: []Function{}}
	for _, status := range h.deps.Functions.Status() {
		name := types.NamespacedName{Namespace: status.Namespace, Name: status.Name}
		fn := Function{Status: status, Scaling: h.deps.Scaling.Status(name), Exposed: h.deps.Exposures.URLs(name)}
		if fn.Scaling != nil {
			fn.Scaling.Ready = status.Ready
		}
		if backlog, known := h.deps.Scaling.Backlog(name); known {
			fn.Backlog = &backlog
		}
		list.Functions = append(list.Functions, fn)
	}
	writeAnswer(w, http.StatusOK, list)
}

func (h *ControlHandler) subscriptions(w http.ResponseWriter, _ *http.Request) {
	writeAnswer(w, http.StatusOK, Subscriptions{h.deps.Subscriptions.Status()})
}

// log streams lines until the last one, or until the request ends.
func (h *ControlHandler) log(w http.ResponseWriter, r *http.Request) {
	if err := daemon.WithoutBody(w, r); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	fn := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	tail, follow, err := logQuery(r)
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, err.Error())
		return
	case !h.exists(fn):
		fail(w, http.StatusNotFound, fmt.Sprintf("there is no Function %s", fn))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	lines := json.NewEncoder(w)
	if !follow {
		for _, line := range h.deps.Lines.Recent(fn, tail) {
			if lines.Encode(line) != nil {
				return // the client is gone
			}
		}
		return
	}
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Time{}) // the read timeout would end the stream
	_ = controller.Flush()                      // the client gets the status before the first line
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	h.deps.Lines.Follow(ctx, fn, tail, func(line process.Line) {
		if lines.Encode(line) != nil || controller.Flush() != nil {
			cancel()
		}
	})
}

func logQuery(r *http.Request) (tail int, follow bool, err error) {
	query := r.URL.Query()
	tail = defaultTail
	if text := query.Get("tail"); text != "" {
		if tail, err = strconv.Atoi(text); err != nil {
			return 0, false, fmt.Errorf("tail %.20q is not a number", text)
		}
		if tail < 0 || tail > maxTail {
			tail = maxTail // all of them
		}
	}
	if text := query.Get("follow"); text != "" {
		if follow, err = strconv.ParseBool(text); err != nil {
			return 0, false, fmt.Errorf("follow %.20q is neither true nor false", text)
		}
	}
	return tail, follow, nil
}

func (h *ControlHandler) exists(fn types.NamespacedName) bool {
	for _, status := range h.deps.Functions.Status() {
		if status.Namespace == fn.Namespace && status.Name == fn.Name {
			return true
		}
	}
	return false
}

func fail(w http.ResponseWriter, status int, text string) { writeAnswer(w, status, failure{text}) }

func writeAnswer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

var (
	errHost  = errors.New("this API answers on this machine's loopback address alone")
	errToken = errors.New("the API needs the header Authorization: Bearer <token>; the token is in instance.json of the state folder")
)
