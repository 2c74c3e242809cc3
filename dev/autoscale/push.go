package autoscale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rouse-run/rouse/internal/kedarules"
)

const (
	firstBackoff = 100 * time.Millisecond // KEDA begins with 2 s, to a scaler that is far
	lastBackoff  = 5 * time.Second
)

// push holds the stream open on which the scaler wakes. A scaler that ends it without an error wants the client to reconnect.
func (o *object) push(ctx context.Context) {
	backoff := kedarules.Backoff{First: firstBackoff, Last: lastBackoff}
	for {
		err := o.follow(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Next(errors.Is(err, io.EOF))):
		}
	}
}

// follow reads one stream until it ends. Only true means something: only polls scale down.
func (o *object) follow(ctx context.Context) error {
	stream, err := o.autoscaler.client.StreamIsActive(ctx, o.ref())
	if err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if response.GetResult() {
			o.decide(func(s *state, now time.Time, b bounds) { s.wake(now, b) })
			note(o.nudged) // so that a burst has more than one soon
		}
	}
}
