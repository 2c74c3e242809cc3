package broker

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// maxPublished bounds the published events that wait for a watcher. Further ones are dropped.
const maxPublished = 64 << 10

// WatchPublished calls apply with each event that is published after started was called, one at a time, until ctx ends. It reads what
// core NATS carries: an event that is published twice is reported twice, although the stream stores it once, and one that is not decodable
// is left out. A watcher misses events when more than maxPublished wait for it.
func (c *Conn) WatchPublished(ctx context.Context, started func(), apply func(cloudevent.Event)) error {
	messages := make(chan *nats.Msg, maxPublished)
	subscription, err := c.nc.ChanSubscribe(routing.SubjectPrefix+".>", messages)
	if err != nil {
		return fmt.Errorf("watch published events: %w", mapError(err))
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only when the connection is gone
	if err := c.flush(ctx); err != nil {
		return fmt.Errorf("watch published events: %w", mapError(err))
	}
	started()
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-messages:
			if ev, err := decode(message.Header, message.Data); err == nil {
				apply(ev)
			}
		}
	}
}

// flush returns when the server has processed what was sent before. It waits for a connection.
func (c *Conn) flush(ctx context.Context) error {
	if err := c.waitConnected(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	defer cancel()
	return c.nc.FlushWithContext(ctx)
}
