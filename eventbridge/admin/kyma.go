package admin

import (
	"net/http"

	"github.com/rouse-run/rouse/eventbridge/identity"
)

// Kyma is what a move from Kyma has to know of NATS.
type Kyma struct {
	Stream KymaStream `json:"stream"`
	// Consumers are those that Kyma's eventing-manager has in it.
	Consumers []KymaConsumer `json:"consumers"`
}

// KymaStream is the stream of events as NATS has it.
type KymaStream struct {
	Name              string `json:"name"`
	Replicas          int    `json:"replicas"`
	Storage           string `json:"storage"`
	MaxBytes          int64  `json:"maxBytes"`
	MaxMsgsPerSubject int64  `json:"maxMsgsPerSubject"`
	DuplicateWindow   string `json:"duplicateWindow"`
	Retention         string `json:"retention"`
	Discard           string `json:"discard"`
	// DropsOldest is true where a full type loses its oldest event.
	DropsOldest bool   `json:"dropsOldest"`
	Messages    uint64 `json:"messages"`
	Bytes       uint64 `json:"bytes"`
}

// KymaConsumer is a push consumer of eventing-manager.
type KymaConsumer struct {
	Name        string `json:"name"`
	Description string `json:"description"` // namespace/name/subject
	Bound       bool   `json:"bound"`       // eventing-manager receives on it
	Pending     uint64 `json:"pending"`
	AckPending  uint64 `json:"ackPending"`
	Settled     uint64 `json:"settled"` // up to this sequence of the stream
}

// kyma returns the stream of events, and what Kyma has in it.
func (h *Handler) kyma(_ http.ResponseWriter, r *http.Request) (action, error) {
	_, err := namespaceOf(r.URL.Query())
	do := func(w http.ResponseWriter, r *http.Request, _ identity.User) error {
		found, err := h.store.Kyma(r.Context())
		if err != nil {
			return err
		}
		if found.Consumers == nil {
			found.Consumers = []KymaConsumer{}
		}
		answer(w, http.StatusOK, found)
		return nil
	}
	return action{identity.ListSubscriptions(""), do}, err
}
