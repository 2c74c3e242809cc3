package broker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ask makes a request of JetStream's API that the client library does not offer, and reads the answer into answer.
// Errors of the client library are left to be mapped.
func (c *Conn) ask(ctx context.Context, subject string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	raw, err := c.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return err
	}
	var said struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(raw.Data, &said); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if said.Error != nil {
		return mapAPIError(said.Error)
	}
	if err := json.Unmarshal(raw.Data, answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
