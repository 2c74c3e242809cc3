package subscription

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

type fakeUnwanted struct {
	mu    sync.Mutex
	calls int
	takes time.Duration
	err   error
}

func (f *fakeUnwanted) DropUnwanted(context.Context, string) (uint64, error) {
	f.mu.Lock()
	f.calls++
	takes, err := f.takes, f.err
	f.mu.Unlock()
	time.Sleep(takes)
	return 7, err
}

func (f *fakeUnwanted) answer(takes time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes, f.err = takes, err
}

func (f *fakeUnwanted) called() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func TestUnwantedEventsAreDroppedPeriodically(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, soon := &fakeUnwanted{takes: 100 * time.Millisecond}, make(chan struct{}, 1)
		d := &dropper{unwanted: fake, soon: soon, dropped: newDropped(prometheus.NewRegistry()), log: logr.Discard()}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = d.Start(ctx) }()
		after := func(wait time.Duration, calls int) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			require.Equal(t, calls, fake.called())
		}
		after(time.Second, 1)
		after(dropInterval, 2)
		fake.answer(10*time.Second, errors.New("no answer"))
		after(dropInterval, 3)
		soon <- struct{}{}
		after(4*time.Minute, 3) // what takes long is rare
		after(2*time.Minute, 4)
		fake.answer(0, nil)
		after(10*time.Minute, 16)
		soon <- struct{}{}
		after(time.Second, 17)
		require.InDelta(t, 17*7, testutil.ToFloat64(d.dropped), 0)
	})
}
