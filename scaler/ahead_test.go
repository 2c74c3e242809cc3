package scaler

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// announcing is a Listener whose announcements the test makes.
type announcing struct {
	mu      sync.Mutex
	open    int
	publish func()
	ahead   chan string
}

func (a *announcing) OnPublish(_ []string, notify func()) (func(), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open++
	a.publish = notify
	var once sync.Once
	return func() {
		once.Do(func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.open--
		})
	}, nil
}

func (a *announcing) WatchAhead(ctx context.Context, apply func(string)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case subject := <-a.ahead:
			apply(subject)
		}
	}
}

func TestAnAnnouncementWakesAsAPublishDoesAndOnce(t *testing.T) {
	t.Parallel()
	listener := &announcing{ahead: make(chan string)}
	a := newAheads(listener)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = a.run(ctx) })
	woken := make(chan string, 10)
	_, err := a.OnPublish([]string{"kyma.shop.a", "kyma.shop.b"}, func() { woken <- "first" })
	require.NoError(t, err)
	stop, err := a.OnPublish([]string{"kyma.shop.b"}, func() { woken <- "second" })
	require.NoError(t, err)
	stop()
	listener.ahead <- "kyma.shop.other"
	listener.ahead <- "kyma.shop.b"
	listener.ahead <- "kyma.shop.b"
	listener.ahead <- "kyma.shop.a"
	require.Equal(t, "first", <-woken)
	listener.publish()
	cancel()
	running.Wait()
	require.Empty(t, woken)
	require.Zero(t, listener.open, "nobody listens any more")
	require.Empty(t, a.bySubject)
}
