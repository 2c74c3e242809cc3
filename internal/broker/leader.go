package broker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// MoveLeader has another server of the cluster lead a consumer. Nothing is lost by it; requests
// for messages are to be made anew, which sources do by themselves.
func (c *Conn) MoveLeader(ctx context.Context, stream, consumer string) error {
	if err := c.moveLeader(ctx, stream, consumer); err != nil {
		return fmt.Errorf("move the leader of consumer %q: %w", consumer, err)
	}
	return nil
}

func (c *Conn) moveLeader(ctx context.Context, stream, consumer string) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := c.nc.RequestWithContext(ctx, "$JS.API.CONSUMER.LEADER.STEPDOWN."+stream+"."+consumer, nil)
	if err != nil {
		return mapError(err)
	}
	var said struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &said); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if said.Error != nil {
		return mapAPIError(said.Error)
	}
	return nil
}
