package ingress

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// subscribedPath is where applications ask what of theirs anybody wants.
const subscribedPath = legacyPath + "/subscribed"

// Subscriptions tells what the Subscriptions of the cluster want.
type Subscriptions interface {
	// Specs are those of all Subscriptions. It does not wait: while they are not known it returns an error.
	Specs(ctx context.Context) ([]eventingv1alpha2.SubscriptionSpec, error)
}

// subscribedEvents is the answer to an application.
type subscribedEvents struct {
	Events []subscribedEvent `json:"eventsInfo"`
}

// subscribedEvent is a type of events in the two parts that applications publish it in.
type subscribedEvent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type subscribedFailure struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
}

func (h *handler) subscribed(w http.ResponseWriter, r *http.Request) {
	const unknown = "the Subscriptions are not known yet"
	var specs []eventingv1alpha2.SubscriptionSpec
	ok := h.subscriptions != nil
	if ok {
		var err error
		if specs, err = h.subscriptions.Specs(r.Context()); err != nil {
			h.log.V(1).Info(unknown, "reason", err.Error())
			ok = false
		}
	}
	if !ok {
		respondJSON(w, http.StatusInternalServerError, retrySoon, subscribedFailure{Code: http.StatusInternalServerError, Error: unknown})
		return
	}
	respondJSON(w, http.StatusOK, 0, subscribedEvents{Events: subscribedBy(specs, r.PathValue("application"))})
}

// subscribedBy finds the types of one application that the Subscriptions name, sorted and each once.
func subscribedBy(specs []eventingv1alpha2.SubscriptionSpec, application string) []subscribedEvent {
	events := []subscribedEvent{}
	for i := range specs {
		for _, eventType := range specs[i].Types {
			ok := specs[i].Source == application
			if specs[i].TypeMatching == eventingv1alpha2.TypeMatchingExact {
				eventType, ok = routing.NameInOldType(application, eventType)
			}
			name, version, whole := cutVersion(eventType)
			if ok && whole {
				events = append(events, subscribedEvent{Name: name, Version: version})
			}
		}
	}
	slices.SortFunc(events, func(a, b subscribedEvent) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	return slices.Compact(events)
}

// cutVersion takes the last segment off.
func cutVersion(eventType string) (name, version string, ok bool) {
	dot := strings.LastIndexByte(eventType, '.')
	if dot < 0 {
		return "", "", false
	}
	return eventType[:dot], eventType[dot+1:], true
}
