package subscription

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rouse-run/rouse/internal/broker"
)

// Neighbours reports who else uses a stream.
type Neighbours interface {
	KymaConsumers(ctx context.Context, stream string) (broker.KymaConsumers, error)
}

// errEventingManager is why a stream is left alone.
var errEventingManager = errors.New("the stream is shared with Kyma's eventing-manager")

// guard keeps off a stream in which Kyma's eventing-manager has consumers: whenever that starts it deletes the consumers of
// others, with the events that wait in them. It checks until it has once seen none.
type guard struct {
	Broker

	stream   string
	mu       sync.Mutex
	verified bool
}

// EnsureStreamsFor creates no stream, and changes none, before the stream is verified.
func (g *guard) EnsureStreamsFor(
	ctx context.Context, options broker.StreamOptions, interested func(ctx context.Context) ([]broker.Consumer, error),
) error {
	if err := g.verify(ctx); err != nil {
		return err
	}
	return g.Broker.EnsureStreamsFor(ctx, options, interested)
}

// EnsureConsumer creates no consumer before the stream is verified.
func (g *guard) EnsureConsumer(ctx context.Context, stream string, consumer broker.Consumer) error {
	if err := g.verify(ctx); err != nil {
		return err
	}
	return g.Broker.EnsureConsumer(ctx, stream, consumer)
}

// DropUnwanted removes nothing before the stream is verified.
func (g *guard) DropUnwanted(ctx context.Context, stream string) (uint64, error) {
	if err := g.verify(ctx); err != nil {
		return 0, err
	}
	return g.Broker.DropUnwanted(ctx, stream)
}

func (g *guard) verify(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.verified {
		return nil
	}
	found, err := g.KymaConsumers(ctx, g.stream)
	switch {
	case errors.Is(err, broker.ErrNoStream): // it cannot have a consumer
	case err != nil:
		return err
	case found.Any():
		return fmt.Errorf("%w: %s", errEventingManager, explain(found, g.stream))
	}
	g.verified = true
	return nil
}

// explain says what eventing-manager does there, and what to do.
func explain(found broker.KymaConsumers, stream string) string {
	const otherwise = "use a NATS of Rouse's own, or set kyma.allowEventingManager=true in the chart (--allow-eventing-manager)"
	if found.Bound > 0 {
		return fmt.Sprintf("it receives on %d consumers of stream %s, and would delete those of Rouse, with the events that wait in them, "+
			"whenever it starts: stop it for good, %s", found.Bound, stream, otherwise)
	}
	return fmt.Sprintf("it has left %d consumers in stream %s, which keep every event until the stream is full, and would delete those of "+
		"Rouse if it came back: make sure that it does not and delete its consumers, %s", found.Left, stream, otherwise)
}
