package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/eventbridge/identity"
)

// runTimeout bounds a redrive or purge; what is left takes another request.
const runTimeout = 5 * time.Minute

// redrive delivers dead letters again.
func (h *Handler) redrive(w http.ResponseWriter, r *http.Request) (action, error) {
	selection, err := selectionOf(w, r)
	do := func(w http.ResponseWriter, r *http.Request, user identity.User) error {
		ctx, cancel := context.WithTimeout(r.Context(), runTimeout)
		defer cancel()
		done, err := h.store.Redrive(ctx, selection)
		h.audit("dead letters redriven", user, selection,
			"redriven", done.Redriven, "failed", done.Failed, "remaining", done.Remaining)
		result := redrivenBody{
			Redriven: &done.Redriven, Failed: &done.Failed, Remaining: &done.Remaining, Problems: done.Problems,
		}
		h.finish(w, &result.Error, turnError(ctx, err), &result)
		return nil
	}
	return action{identity.Redrive(selection.Namespace), do}, err
}

// purge deletes dead letters.
func (h *Handler) purge(w http.ResponseWriter, r *http.Request) (action, error) {
	selection, err := selectionOf(w, r)
	do := func(w http.ResponseWriter, r *http.Request, user identity.User) error {
		ctx, cancel := context.WithTimeout(r.Context(), runTimeout)
		defer cancel()
		count, err := h.store.Purge(ctx, selection)
		h.audit("dead letters purged", user, selection, "purged", count)
		result := purgedBody{Purged: count}
		h.finish(w, &result.Error, turnError(ctx, err), &result)
		return nil
	}
	return action{identity.Purge(selection.Namespace), do}, err
}

// audit logs who did what, also when it ended with an error. An empty namespace is all of them.
func (h *Handler) audit(what string, user identity.User, s Selection, counts ...any) {
	h.log.Info(what, append([]any{
		"user", user.Name, "namespace", s.Namespace, "subscription", s.Subscription, "reason", s.Reason, "sequence", s.Sequence,
	}, counts...)...)
}

// turnError is the reason why a request was stopped, if that is others' turn.
func turnError(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errTurnOver) {
		return errTurnOver
	}
	return err
}

// finish answers with what was done, also when that ended with an error.
func (h *Handler) finish(w http.ResponseWriter, text *string, err error, result any) {
	status := http.StatusOK
	if err != nil {
		status, *text = h.judge(err)
	}
	answer(w, status, result)
}

// withoutReadDeadline takes away the read deadline of a request, which would end it while it waits or is worked on: both have bounds of their own.
func withoutReadDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // tests' recorders have none
}
