package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Manager changes what runs. Its errors are for the user; of type Error they have a status of their own.
type Manager interface {
	// RollBack has a Function serve a version, or for "" the newest one, and waits until it does. It returns the version that runs.
	RollBack(ctx context.Context, user User, function types.NamespacedName, version string) (served string, err error)
	// Pause pauses a Subscription, or resumes it. changed is false if it was so already.
	Pause(ctx context.Context, user User, subscription types.NamespacedName, pause bool) (changed bool, err error)
}

// maxVersion bounds the name of a version in a request.
const maxVersion = 253

// rollback serves an earlier version of a Function, or the newest again.
func (h *Handler) rollback(w http.ResponseWriter, r *http.Request, user User) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	var body struct {
		Version string `json:"version"`
	}
	if err := decode(w, r, &body, maxBody); err != nil {
		return err
	}
	if len(body.Version) > maxVersion {
		return Error{http.StatusBadRequest, "version: name one that the Function's page lists, or nothing for the newest"}
	}
	ctx, cancel := unhurried(w, r)
	defer cancel()
	served, err := h.deps.Manager.RollBack(ctx, user, name, body.Version)
	if err != nil {
		return refusal(err)
	}
	h.audit(user, "Function rolled back", "function", name.String(), "version", body.Version, "serves", served)
	answer(w, http.StatusOK, map[string]string{"version": served})
	return nil
}

// pauseBody is the body of a request that pauses or resumes.
type pauseBody struct {
	Paused *bool `json:"paused"`
}

// paused is the answer to it.
type paused struct {
	// Changed lists the Subscriptions that were not so already.
	Changed []string `json:"changed"`
}

// pauseSubscription pauses or resumes one Subscription.
func (h *Handler) pauseSubscription(w http.ResponseWriter, r *http.Request, user User) error {
	return h.pause(w, r, user, func(all []Subscription, name types.NamespacedName) ([]Subscription, error) {
		at := slices.IndexFunc(all, func(s Subscription) bool { return s.Namespace == name.Namespace && s.Name == name.Name })
		if at < 0 {
			return nil, fmt.Errorf("%w: there is no Subscription %s", ErrNotFound, name)
		}
		return all[at : at+1], nil
	})
}

// pauseFunction pauses or resumes all Subscriptions that lead to a Function.
func (h *Handler) pauseFunction(w http.ResponseWriter, r *http.Request, user User) error {
	return h.pause(w, r, user, func(all []Subscription, name types.NamespacedName) ([]Subscription, error) {
		leading := slices.DeleteFunc(slices.Clone(all), func(s Subscription) bool { return !s.Function || s.Sink != name.String() })
		if len(leading) == 0 {
			return nil, fmt.Errorf("%w: no Subscription leads to Function %s: it gets no events", ErrNotFound, name)
		}
		return leading, nil
	})
}

func (h *Handler) pause(
	w http.ResponseWriter, r *http.Request, user User, choose func([]Subscription, types.NamespacedName) ([]Subscription, error),
) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	var body pauseBody
	if err := decode(w, r, &body, maxBody); err != nil {
		return err
	}
	if body.Paused == nil {
		return Error{http.StatusBadRequest, "paused: set it to true or false"}
	}
	found, err := h.deps.State.Snapshot(r.Context(), user)
	if err != nil {
		return err
	}
	chosen, err := choose(found.Subscriptions, name)
	if err != nil {
		return err
	}
	ctx, cancel := unhurried(w, r)
	defer cancel()
	result := paused{Changed: []string{}}
	for i := range chosen {
		each := types.NamespacedName{Namespace: chosen[i].Namespace, Name: chosen[i].Name}
		changed, err := h.deps.Manager.Pause(ctx, user, each, *body.Paused)
		if err != nil {
			return refusal(err)
		}
		if changed {
			result.Changed = append(result.Changed, each.String())
		}
	}
	done := map[bool]string{true: "Subscriptions paused", false: "Subscriptions resumed"}[*body.Paused]
	h.audit(user, done, "subscriptions", strings.Join(result.Changed, " "))
	answer(w, http.StatusOK, result)
	return nil
}

// unhurried gives a request whose body is read the time of a change.
func unhurried(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body is read, and the rest has a bound of its own
	return context.WithTimeout(r.Context(), changeTimeout)
}
