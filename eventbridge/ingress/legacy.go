package ingress

import (
	"net/http"
	"time"
)

// legacyPath is where applications publish that do not know CloudEvents yet.
const legacyPath = "/{application}/v1/events"

func (h *handler) publishLegacy(w http.ResponseWriter, r *http.Request) {
	body, held, err := h.memory.read(w, r, h.options.MaxRequestSize)
	defer h.memory.give(held)
	var event legacyEvent
	if err == nil {
		event, err = decodeLegacy(r.PathValue("application"), body)
	}
	if err == nil {
		err = complete(&event.Event, r.Header, time.Now())
	}
	if err != nil {
		respondLegacy(w, legacyRefusal(err))
		return
	}
	started := time.Now()
	err = h.publisher.PublishLegacy(untilStored(r.Context()), &event.Event, event.oldType)
	resp := h.settle(&event.Event, err, time.Since(started))
	if err != nil {
		respondLegacy(w, legacyFailure(err, resp))
		return
	}
	respondJSON(w, http.StatusOK, 0, legacySuccess{ID: event.ID})
}
