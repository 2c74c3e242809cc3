package scaler

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rouse-run/rouse/internal/routing"
)

func TestHandlerServesHealthAndReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.options.DrainDelay = 3 * time.Second
		r.start()
		get := func(path string) int {
			recorder := httptest.NewRecorder()
			r.scaler.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			return recorder.Code
		}
		synctest.Wait()
		require.Equal(t, http.StatusOK, get("/healthz"))
		require.Equal(t, http.StatusServiceUnavailable, get("/readyz"), "subscriptions are not known")

		r.routes.post(nil)
		synctest.Wait()
		require.Equal(t, http.StatusOK, get("/readyz"))
		r.broker.breakDown()
		require.Equal(t, http.StatusOK, get("/readyz"), "an error must still reach KEDA")
		require.Equal(t, http.StatusOK, get("/metrics"))

		go r.stop()
		advance(time.Second)
		require.Equal(t, http.StatusServiceUnavailable, get("/readyz"))
		require.Equal(t, http.StatusOK, get("/healthz"))
		r.stop()
	})
}

func TestMetricsCountAWake(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.keda("order", nil)
		advance(time.Second)
		r.broker.publish(orderPlaced)
		advance(5 * time.Second)

		problems, err := testutil.GatherAndLint(r.registry)
		require.NoError(t, err)
		require.Empty(t, problems)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_activations_total"), 0)
		require.InDelta(t, 2, value(t, r.registry, "rouse_scaler_streams_open"), 0)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_functions_tracked"), 0)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_activation_seconds"), 0)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_ready_endpoint_seconds"), 0)
		require.Less(t, value(t, r.registry, "rouse_scaler_snapshot_age_seconds"), 3.0)

		r.broker.breakDown()
		advance(5 * time.Second)
		require.NotZero(t, value(t, r.registry, "rouse_scaler_refresh_errors_total"))
		r.network.cut()
		advance(5 * time.Second)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_stream_gap_seconds"), 0)
	}, order)
}

// value sums a metric over its labels; of a histogram, the observations.
func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue() +
				float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

type brokenRoutes struct{}

func (brokenRoutes) Watch(context.Context, func([]routing.Route)) error {
	return errors.New("no permission")
}

func TestServeEndsWhenSubscriptionsCannotBeWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		s := New(Deps{
			Routes: brokenRoutes{}, Endpoints: r.endpoints,
			Backlogs: r.broker, Listener: r.broker, Connection: r.broker,
			Registry: r.registry, Log: r.logs.logger(),
		}, r.options)
		err := s.Serve(t.Context(), bufconn.Listen(1<<10))
		require.ErrorContains(t, err, "watch subscriptions: no permission")
	})
}
