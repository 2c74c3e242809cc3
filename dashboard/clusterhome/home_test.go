package clusterhome

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
)

// slow is a cluster without bridges whose API server takes a second for an answer.
type slow struct {
	target.Target

	mu    sync.Mutex
	reads int
	err   error
}

func (s *slow) Functions(ctx context.Context, _ string) ([]target.Function, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return []target.Function{{Namespace: "shop", Name: "pricing", Desired: s.reads}}, s.err
}

func (s *slow) Subscriptions(context.Context, string) ([]target.Subscription, error) { return nil, nil }

func (s *slow) Admins(context.Context) ([]target.Admin, error) { return nil, errors.New("none") }

func (s *slow) Exposed(context.Context, string) map[types.NamespacedName][]string { return nil }

// shown returns which read is shown.
func shown(t *testing.T, h *Home) int {
	t.Helper()
	found, err := h.Snapshot(t.Context(), dashboard.User{})
	require.NoError(t, err)
	return found.Functions[0].Desired
}

func TestPagesShowWhatWasReadWhileTheNextIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := &slow{}
		h := New(&target.Connection{Target: cluster}, nil, "")
		require.Equal(t, 1, shown(t, h))
		time.Sleep(9 * time.Second)
		require.Equal(t, 1, shown(t, h), "reading takes a tenth of the time at most")
		time.Sleep(2 * time.Second)
		began := time.Now()
		for range 100 {
			require.Equal(t, 1, shown(t, h))
		}
		require.Zero(t, time.Since(began), "nobody waits")
		time.Sleep(2 * time.Second)
		require.Equal(t, 2, shown(t, h), "all have caused one read")

		time.Sleep(time.Hour)
		require.Equal(t, 3, shown(t, h), "what nobody has looked at for long is read anew")
		cluster.mu.Lock()
		cluster.err = errors.New("the API server is away")
		cluster.mu.Unlock()
		time.Sleep(11 * time.Second)
		require.Equal(t, 3, shown(t, h))
		time.Sleep(2 * time.Second)
		_, err := h.Snapshot(t.Context(), dashboard.User{})
		require.ErrorContains(t, err, "the API server is away")
	})
}

func TestAReadThatItsRequestHasGivenUpFailsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(&target.Connection{Target: &slow{}}, nil, "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := h.Snapshot(ctx, dashboard.User{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, shown(t, h))
	})
}
