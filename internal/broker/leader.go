package broker

import (
	"context"
	"fmt"
)

// MoveLeader has another server of the cluster lead a consumer. Nothing is lost by it; pull
// requests have to be sent again, which sources do by themselves.
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
	var moved struct{}
	return mapError(c.callAPI(ctx, "$JS.API.CONSUMER.LEADER.STEPDOWN."+stream+"."+consumer, nil, &moved))
}
