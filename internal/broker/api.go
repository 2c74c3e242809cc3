package broker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// callAPI sends a request of JetStream's API that the client library does not offer, and decodes the response into answer.
// Errors of the client library are left to be mapped.
func (c *Conn) callAPI(ctx context.Context, subject string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	raw, err := c.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return err
	}
	var envelope struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(raw.Data, &envelope); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if envelope.Error != nil {
		return mapAPIError(envelope.Error)
	}
	if err := json.Unmarshal(raw.Data, answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
