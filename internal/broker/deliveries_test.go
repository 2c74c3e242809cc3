package broker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// followed are the deliveries that a replica has heard of.
type followed struct {
	mu    sync.Mutex
	keys  []byte // the first of each
	known int
}

func (f *followed) follow(t *testing.T, c *Conn) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = c.FollowDeliveries(ctx, func(namespace string, stored time.Time, page []Delivery) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, each := range page {
				if namespace == "shop" && time.Since(stored) < time.Minute {
					f.keys = append(f.keys, each.Key[0])
				}
			}
		}, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.known++
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func (f *followed) await(t *testing.T, want ...byte) {
	t.Helper()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.known > 0 && string(f.keys) == string(want)
	}, testTimeout, moment)
}

func TestAReplicaKnowsAllDeliveriesThatWereStoredAndThoseThatAreStoredMeanwhile(t *testing.T) {
	t.Parallel()
	c := connect(t, natstest.Start(t).URL())
	require.NoError(t, c.EnsureStreams(t.Context(), testStreams()))
	delivery := func(key byte) Delivery { return Delivery{Key: [16]byte{key}, Body: [8]byte{key + 1}} }
	require.NoError(t, c.StoreDeliveries(t.Context(), "shop", []Delivery{delivery(1), delivery(2)}))
	early, late := &followed{}, &followed{}
	early.follow(t, c)
	early.await(t, 1, 2)
	require.NoError(t, c.StoreDeliveries(t.Context(), "shop", []Delivery{delivery(3)}))
	early.await(t, 1, 2, 3)
	late.follow(t, c)
	late.await(t, 1, 2, 3)
}
