package broker

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

const (
	streamDeleted   = "$JS.EVENT.ADVISORY.STREAM.DELETED."
	consumerDeleted = "$JS.EVENT.ADVISORY.CONSUMER.DELETED."
)

// OnDeleted calls notify whenever any client has deleted one of the streams, then with an empty consumer, or a consumer of
// them, until stop. Calls may run at the same time. It goes on after a reconnect, but does not report what was deleted in
// between. Without the permission for advisories it receives nothing; the log has the error.
func (c *Conn) OnDeleted(streams []string, notify func(stream, consumer string)) (stop func(), err error) {
	var subscriptions []*nats.Subscription
	stop = func() {
		for _, subscription := range subscriptions {
			_ = subscription.Unsubscribe() // one that is gone with its connection is fine
		}
	}
	for _, stream := range streams {
		for subject, prefix := range map[string]string{
			streamDeleted + stream: "", consumerDeleted + stream + ".*": consumerDeleted + stream + ".",
		} {
			subscription, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
				consumer := ""
				if prefix != "" {
					consumer = strings.TrimPrefix(m.Subject, prefix)
				}
				c.deletions.observe(deleted{stream, consumer})
				notify(stream, consumer)
			})
			if err != nil {
				stop()
				return nil, fmt.Errorf("listen for what is deleted of stream %q: %w", stream, mapError(err))
			}
			subscriptions = append(subscriptions, subscription)
		}
	}
	return stop, nil
}

// IsInternalConsumer reports whether a consumer is not a Subscription's but one that EnsureStreams makes.
func IsInternalConsumer(consumer string) bool { return strings.HasPrefix(consumer, retryConsumer) }
