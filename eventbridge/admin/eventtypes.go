package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/rouse-run/rouse/eventbridge/identity"
)

// EventTypes knows the types of events with a schema.
type EventTypes interface {
	// Texts returns the JSON Schema of each type that has one.
	Texts() map[string][]byte
}

// EventType is a type with its schema.
type EventType struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// eventTypes lists the types with a schema. They are the same for all namespaces, and for everybody who may list Subscriptions in one.
func (h *Handler) eventTypes(_ http.ResponseWriter, r *http.Request) (action, error) {
	namespace, err := namespaceOf(r.URL.Query())
	do := func(w http.ResponseWriter, _ *http.Request, _ identity.User) error {
		all := []EventType{}
		if h.types != nil {
			texts := h.types.Texts()
			for _, name := range slices.Sorted(maps.Keys(texts)) {
				all = append(all, EventType{name, texts[name]})
			}
		}
		answer(w, http.StatusOK, struct {
			Types []EventType `json:"types"`
		}{all})
		return nil
	}
	return action{identity.ListSubscriptions(namespace), do}, err
}
