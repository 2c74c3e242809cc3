package target

import "context"

// Kyma is what Kyma's eventing-manager has left in NATS, and the stream.
type Kyma struct {
	Stream    KymaStream     `json:"stream"`
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
	DropsOldest       bool   `json:"dropsOldest"` // of a type that is full
	Messages          uint64 `json:"messages"`
	Bytes             uint64 `json:"bytes"`
}

// KymaConsumer is a push consumer of eventing-manager.
type KymaConsumer struct {
	Name        string `json:"name"`
	Description string `json:"description"` // namespace/name/subject
	Bound       bool   `json:"bound"`       // a client receives on it
	Pending     uint64 `json:"pending"`
	AckPending  uint64 `json:"ackPending"`
	Settled     uint64 `json:"settled"` // up to this sequence of the stream
}

// Kyma returns what Kyma has left in NATS.
func (c *Client) Kyma(ctx context.Context) (Kyma, error) {
	var answer Kyma
	return answer, c.read(ctx, "/v1/kyma", nil, &answer)
}
