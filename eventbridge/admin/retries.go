package admin

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/identity"
)

// Retried is the result of a delivery of what waited for its next attempt.
type Retried struct {
	// Retried events are with their Subscription again.
	Retried uint64 `json:"retried"`
	// Failed events wait on; Problems has the reasons.
	Failed uint64 `json:"failed"`
	// Remaining events of the Subscription wait, those that are due within moments among them.
	Remaining uint64 `json:"remaining"`
	// Problems has each reason of a failure once.
	Problems []string `json:"problems,omitempty"`
}

// retriedBody is the JSON of a response.
type retriedBody struct {
	Retried

	Error string `json:"error,omitempty"`
}

// retry delivers what waits for its next attempt of one Subscription. It takes the right of a redrive: both deliver again what has failed.
func (h *Handler) retry(w http.ResponseWriter, r *http.Request) (action, error) {
	subscription, err := subscriptionOf(w, r)
	do := func(w http.ResponseWriter, r *http.Request, user identity.User) error {
		ctx, cancel := context.WithTimeout(r.Context(), runTimeout)
		defer cancel()
		done, err := h.store.RetryNow(ctx, subscription)
		h.log.Info("waiting events retried", "user", user.Name, "namespace", subscription.Namespace, "subscription", subscription.Name,
			"retried", done.Retried, "failed", done.Failed, "remaining", done.Remaining)
		result := retriedBody{Retried: done}
		h.finish(w, &result.Error, turnError(ctx, err), &result)
		return nil
	}
	return action{identity.Redrive(subscription.Namespace), do}, err
}

// subscriptionOf decodes the body of a request that names a Subscription.
func subscriptionOf(w http.ResponseWriter, r *http.Request) (types.NamespacedName, error) {
	var body struct {
		Namespace    string `json:"namespace"`
		Subscription string `json:"subscription"`
	}
	if err := decodeBody(w, r, &body, maxBody, "namespace and subscription"); err != nil {
		return types.NamespacedName{}, err
	}
	if body.Subscription == "" {
		return types.NamespacedName{}, problem("subscription", "it is missing")
	}
	selected := Selection{Namespace: body.Namespace, Subscription: body.Subscription}
	return types.NamespacedName{Namespace: body.Namespace, Name: body.Subscription}, invalid(selected.Validate())
}
