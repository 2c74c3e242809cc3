package broker

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/routing"
)

// KymaConsumers counts what Kyma's eventing-manager has in a stream.
type KymaConsumers struct {
	Bound int // it receives on these now
	Left  int // no client does; they keep every event all the same
}

// Any reports whether there are any.
func (k KymaConsumers) Any() bool { return k.Bound+k.Left > 0 }

// KymaConsumers looks for the consumers of Kyma's eventing-manager, which deletes those
// of others whenever it starts. ErrNoStream means that there is no stream to share.
func (c *Conn) KymaConsumers(ctx context.Context, stream string) (KymaConsumers, error) {
	var found KymaConsumers
	if !c.Connected() {
		return found, fmt.Errorf("look for consumers of eventing-manager: %w", ErrNotConnected)
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return found, fmt.Errorf("look for consumers of eventing-manager: %w", mapError(err))
	}
	lister := handle.ListConsumers(ctx)
	for info := range lister.Info() {
		switch {
		case !ofKyma(info):
		case info.PushBound:
			found.Bound++
		default:
			found.Left++
		}
	}
	if err := lister.Err(); err != nil {
		return found, fmt.Errorf("look for consumers of eventing-manager: %w", mapError(err))
	}
	return found, nil
}

// ofKyma recognises them by what no other client makes: a push consumer whose name is made of its description.
func ofKyma(info *jetstream.ConsumerInfo) bool {
	return info.Config.Durable != "" && info.Config.DeliverSubject != "" && info.Name == routing.TypeConsumerName(info.Config.Description)
}
