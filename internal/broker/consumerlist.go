package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Progress shows whether a consumer moves. If two samples differ in Waiting at most, the
// consumer stood still between them.
type Progress struct {
	Created   time.Time // a recreated one has another
	Delivered uint64    // deliveries, repeats included
	Settled   uint64    // position in the stream up to which everything is settled
	Waiting   int       // requests that stand for messages
	Paused    bool      // by an administrator of NATS
	Replicas  int       // servers that keep it
}

// Consumers lists the stream's consumers, those of others too.
func (c *Conn) Consumers(ctx context.Context, stream string) ([]Consumer, error) {
	if !c.Connected() {
		return nil, fmt.Errorf("list consumers: %w", ErrNotConnected)
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", mapError(err))
	}
	consumers := make([]Consumer, 0, handle.CachedInfo().State.Consumers)
	lister := handle.ListConsumers(ctx)
	for info := range lister.Info() {
		consumers = append(consumers, listed(info))
	}
	if err := lister.Err(); err != nil {
		return nil, fmt.Errorf("list consumers: %w", mapError(err))
	}
	return consumers, nil
}

func listed(info *jetstream.ConsumerInfo) Consumer {
	return Consumer{
		Name:          info.Name,
		Description:   info.Config.Description,
		Subjects:      subjects(info.Config),
		Metadata:      ownMetadata(info.Config.Metadata),
		AckWait:       info.Config.AckWait,
		MaxAckPending: info.Config.MaxAckPending,
		Ordered:       ordered(info.Config),
		Backlog:       Backlog{Pending: info.NumPending, AckPending: uint64(info.NumAckPending)},
		Progress: Progress{
			Created:   info.Created,
			Delivered: info.Delivered.Consumer,
			Settled:   info.AckFloor.Stream,
			Waiting:   info.NumWaiting,
			Paused:    info.Paused,
			Replicas:  replicas(info.Cluster),
		},
		Received: info.PushBound || info.NumWaiting > 0,
		listed:   info.Config,
	}
}

func replicas(cluster *jetstream.ClusterInfo) int {
	if cluster == nil || cluster.Leader == "" {
		return 1
	}
	return 1 + len(cluster.Replicas)
}

// Matches reports whether a consumer that was listed is as this one ought to be. If not,
// EnsureConsumer makes it so.
func (c Consumer) Matches(seen Consumer) bool {
	return c.matches(seen.listed) && seen.listed.Metadata[metadataStart] == c.StartFrom.String() && !needsRecreation(seen.listed)
}
