package ingress

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// subscribedPath is where applications list which of their events are subscribed.
const subscribedPath = legacyPath + "/subscribed"

// Subscriptions lists the Subscriptions of the cluster.
type Subscriptions interface {
	// Specs returns the specs of all Subscriptions. It does not wait: it returns an error until they are known.
	Specs(ctx context.Context) ([]eventingv1alpha2.SubscriptionSpec, error)
}

// subscribedEvents is the response to an application.
type subscribedEvents struct {
	Events []subscribedEvent `json:"eventsInfo"`
}

// subscribedEvent is an event type in the two parts in which applications publish it.
type subscribedEvent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type subscribedFailure struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// subscribedAtATime bounds the concurrent requests that search all Subscriptions.
const subscribedAtATime = 2

// subscribed answers when there is a free slot, and memory for the answer until it is read.
func (h *handler) subscribed(w http.ResponseWriter, r *http.Request) {
	timer := time.NewTimer(memoryWait)
	defer timer.Stop()
	select {
	case h.asking <- struct{}{}:
	case <-timer.C:
		h.notSubscribed(w, http.StatusServiceUnavailable, "too many ask what is subscribed")
		return
	case <-r.Context().Done():
		return
	}
	answer, err := h.answerSubscribed(r)
	<-h.asking
	switch size := int64(len(answer)); {
	case err != nil:
		h.notSubscribed(w, http.StatusInternalServerError, err.Error())
	case !h.answers.acquire(size):
		h.notSubscribed(w, http.StatusServiceUnavailable, "too many answers are being sent about what is subscribed")
	default:
		defer h.answers.release(size)
		start(w, http.StatusOK, 0, typeJSON)
		_, _ = w.Write(answer)
	}
}

func (h *handler) notSubscribed(w http.ResponseWriter, status int, reason string) {
	respondJSON(w, status, retrySoon, subscribedFailure{Code: status, Error: reason})
}

var errSubscriptionsUnknown = errors.New("the Subscriptions are not known yet")

func (h *handler) answerSubscribed(r *http.Request) ([]byte, error) {
	if h.subscriptions == nil {
		return nil, errSubscriptionsUnknown
	}
	specs, err := h.subscriptions.Specs(r.Context())
	if err != nil {
		h.log.V(1).Info(errSubscriptionsUnknown.Error(), "reason", err.Error())
		return nil, errSubscriptionsUnknown
	}
	return encode(subscribedEvents{Events: subscribedBy(specs, r.PathValue("application"))}), nil
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

// cutVersion splits off the last segment.
func cutVersion(eventType string) (name, version string, ok bool) {
	dot := strings.LastIndexByte(eventType, '.')
	if dot < 0 {
		return "", "", false
	}
	return eventType[:dot], eventType[dot+1:], true
}
