package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxEvent bounds an event that a user publishes by hand.
const maxEvent = 256 << 10

func (h *Handler) publish(w http.ResponseWriter, r *http.Request, user User) error {
	var event json.RawMessage
	if err := decode(w, r, &event, maxEvent); err != nil {
		return err
	}
	if err := h.deps.Publisher.Publish(r.Context(), user, event); err != nil {
		return Error{http.StatusUnprocessableEntity, err.Error()}
	}
	h.audit(user, "event published by hand")
	answer(w, http.StatusOK, struct{}{})
	return nil
}

// methods lists those of a call.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

const (
	maxPath = 2048
	// callTimeout bounds a call, which may have to wake the Function.
	callTimeout = time.Minute
)

func (h *Handler) call(w http.ResponseWriter, r *http.Request, user User) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	var call Call
	if err := decode(w, r, &call, maxEvent); err != nil {
		return err
	}
	if !slices.Contains(methods, call.Method) || !isPath(call.Path) {
		return Error{http.StatusBadRequest, "method and path: name one of " + strings.Join(methods, ", ") + " and a path such as /orders?id=7"}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body is read, and the rest has a bound of its own
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	found, err := h.deps.Caller.Call(ctx, user, name, call)
	_, isKnown := errors.AsType[Error](err)
	switch {
	case isKnown, errors.Is(err, ErrNotFound):
		return err
	case err != nil:
		return Error{http.StatusBadGateway, err.Error()}
	}
	h.audit(user, "Function called by hand", "function", name.String(), "method", call.Method, "status", found.Status)
	answer(w, http.StatusOK, found)
	return nil
}

// isPath reports whether a text is a path with a query, which leads to no other host.
func isPath(text string) bool {
	_, err := url.ParseRequestURI(text)
	return err == nil && len(text) <= maxPath && strings.HasPrefix(text, "/") && !strings.ContainsAny(text, "#\\ ")
}

// audit logs what a user has done.
func (h *Handler) audit(user User, what string, details ...any) {
	h.deps.Log.Info(what, append([]any{"user", user.Name}, details...)...)
}
