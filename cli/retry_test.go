package cli

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/exit"
)

func TestWhatWaitsForItsNextAttemptIsRetriedNow(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	w := newFixture(t, func(rw http.ResponseWriter, _ *http.Request) {
		if !mended.Load() {
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	require.Zero(t, w.run(t, "publish", "--type", "order.received", "--source", "shop", "--id", "1", "--data", "{}").code)
	w.pricing.Await(t, 1)
	require.Eventually(t, func() bool {
		waiting, err := w.conn.WaitingRetries(context.Background())
		return err == nil && waiting[types.NamespacedName{Namespace: "orders", Name: "pricing"}] == 1
	}, testTimeout, tick)

	mended.Store(true)
	got := w.run(t, "retry", "subscription", "pricing")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, "subscription/pricing: retried 1, failed 0, 0 wait on\n", got.out)
	require.Equal(t, "1", w.pricing.Await(t, 2)[1].ID())

	got = w.run(t, "retry", "function/pricing", "-o", "json")
	require.Equal(t, 0, got.code, got.err)
	require.JSONEq(t, `[{"namespace": "orders", "subscription": "pricing", "retried": 0, "failed": 0, "remaining": 0}]`, got.out)
	require.Equal(t, exit.NotFound, exit.Code(w.run(t, "retry", "subscription", "nope").code))
	require.Equal(t, exit.Usage, exit.Code(w.run(t, "retry", "pricing").code))
}
