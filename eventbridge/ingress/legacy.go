package ingress

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// legacyPath is where applications publish that do not know CloudEvents yet.
const legacyPath = "/{application}/v1/events"

func (h *handler) publishLegacy(w http.ResponseWriter, r *http.Request) {
	id, problem := h.publishOneLegacy(w, r)
	if problem != nil {
		respondLegacy(w, *problem)
		return
	}
	respondJSON(w, http.StatusOK, 0, legacySuccess{ID: id})
}

// publishOneLegacy gives the memory of the event back before it is answered.
func (h *handler) publishOneLegacy(w http.ResponseWriter, r *http.Request) (id string, problem *legacyProblem) {
	may, err := h.permission(r)
	if err != nil {
		return "", new(legacyRefusal(err))
	}
	body, held, err := h.memory.read(w, r, h.options.MaxRequestSize)
	defer h.memory.release(held)
	var event legacyEvent
	if err == nil {
		event, err = decodeLegacy(r.PathValue("application"), body)
	}
	if err == nil {
		err = bounds.Check(&event.Event)
	}
	if err == nil {
		err = complete(&event.Event, r.Header, time.Now())
	}
	if err == nil {
		err = may(&event.Event, event.oldType)
	}
	pass := h.chains.Shown(r.Header)
	if err == nil {
		err = h.chains.Admit(pass, &event.Event)
	}
	if err != nil {
		return "", new(legacyRefusal(err))
	}
	started := time.Now()
	places := 1
	if event.oldType != "" {
		places = 2 // its copy under that type
	}
	var failed error
	busy := h.inPlaces(r, event.Publisher, places, func(ctx context.Context) {
		failed = h.publisher.PublishLegacy(ctx, &event.Event, event.oldType)
	})
	err = cmp.Or(busy, failed)
	resp := h.settle(pass, &event.Event, err, time.Since(started))
	if err != nil {
		return "", new(legacyFailure(err, resp))
	}
	return event.ID, nil
}
