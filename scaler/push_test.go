package scaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

func TestPushBeatsPoll(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(t *testing.T, r *rig) {
		object := r.keda("order", func(o *kedatest.Options) { o.PollingInterval = 300 * time.Second })
		pass(20 * time.Second)
		require.Zero(t, object.Replicas())

		published := time.Now()
		r.broker.publish(orderPlaced)
		pass(time.Millisecond)

		require.Equal(t, 1, object.Replicas())
		require.Equal(t, kedatest.Push, object.Transitions()[0].Reason)
		require.WithinDuration(t, published, object.Transitions()[0].At, time.Second)
	}, order)
}
