package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

type specsFunc func() ([]eventingv1alpha2.SubscriptionSpec, error)

func (f specsFunc) Specs(context.Context) ([]eventingv1alpha2.SubscriptionSpec, error) { return f() }

func serveSubscriptions(t *testing.T, subscriptions Subscriptions) (url string, registry *prometheus.Registry) {
	t.Helper()
	registry = prometheus.NewRegistry()
	server := httptest.NewServer(New(Deps{
		Publisher: &fakePublisher{}, Subscriptions: subscriptions, Connected: func() bool { return true },
		Registerer: registry, Log: logr.Discard(),
	}, DefaultOptions()))
	t.Cleanup(server.Close)
	return server.URL, registry
}

func TestSubscribedListsTheEventsOfAnApplication(t *testing.T) {
	t.Parallel()
	url, registry := serveSubscriptions(t, specsFunc(func() ([]eventingv1alpha2.SubscriptionSpec, error) {
		return []eventingv1alpha2.SubscriptionSpec{
			{Source: "my-shop", Types: []string{"order.created.v2", "order.created.v1", "unversioned"}, TypeMatching: eventingv1alpha2.TypeMatchingStandard},
			{Source: "my-shop", Types: []string{"cart.v1", "order.created.v1"}},
			{Source: "myshop", Types: []string{"other.v1"}},
			{Source: "my-shop", Types: []string{"exact.v1"}, TypeMatching: eventingv1alpha2.TypeMatchingExact},
			{
				TypeMatching: eventingv1alpha2.TypeMatchingExact,
				Types: []string{
					"sap.kyma.custom.my-shop.order.paid.v1", "sap.kyma.custom.myshop.order.packed.v1", "sap.kyma.custom.my-shop.order.created.v1",
					"sap.kyma.custom.my-shop2.order.sent.v1", "sap.kyma.custom.my-shop.alone", "my-shop.order.lost.v1",
				},
			},
		}, nil
	}))
	for path, want := range map[string]string{
		"/my-shop/v1/events/subscribed": `{"eventsInfo":[{"name":"cart","version":"v1"},{"name":"order.created","version":"v1"},` +
			`{"name":"order.created","version":"v2"},{"name":"order.packed","version":"v1"},{"name":"order.paid","version":"v1"}]}`,
		"/nobody/v1/events/subscribed": `{"eventsInfo":[]}`,
	} {
		status, header, body := request{method: http.MethodGet, path: path}.send(t, url)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "application/json", header.Get("Content-Type"))
		require.Equal(t, want+"\n", body)
	}
	require.Contains(t, paths(t, registry), "/{application}/v1/events/subscribed")
	require.NotContains(t, paths(t, registry), "/my-shop/v1/events/subscribed")
}

func TestSubscribedFailsBeforeSubscriptionsAreKnown(t *testing.T) {
	t.Parallel()
	for name, subscriptions := range map[string]Subscriptions{
		"no cache":            nil,
		"a cache out of step": specsFunc(func() ([]eventingv1alpha2.SubscriptionSpec, error) { return nil, errors.New("secret text") }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := serveSubscriptions(t, subscriptions)
			status, header, body := request{method: http.MethodGet, path: "/shop/v1/events/subscribed"}.send(t, url)
			require.Equal(t, http.StatusInternalServerError, status)
			require.Equal(t, "application/json", header.Get("Content-Type"))
			require.Equal(t, "1", header.Get("Retry-After"))
			require.JSONEq(t, `{"code":500,"error":"the Subscriptions are not known yet"}`, body)
		})
	}
}

// Clients need no credentials, and each answer may name all types of all Subscriptions.
func TestSubscribedRequestsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const asked = 20
		var reading atomic.Int32
		release := make(chan struct{})
		h := New(Deps{
			Publisher: &fakePublisher{}, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
			Subscriptions: specsFunc(func() ([]eventingv1alpha2.SubscriptionSpec, error) {
				reading.Add(1)
				<-release
				return nil, nil
			}),
		}, DefaultOptions())
		var answers sync.Map
		var all sync.WaitGroup
		for i := range asked {
			all.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/shop/v1/events/subscribed", nil))
				answers.Store(i, w.Code)
			})
		}
		synctest.Wait()
		require.EqualValues(t, subscribedAtATime, reading.Load())
		time.Sleep(memoryWait)
		close(release)
		all.Wait()
		counts := map[int]int{}
		answers.Range(func(_, status any) bool {
			counts[status.(int)]++
			return true
		})
		require.Equal(t, map[int]int{http.StatusOK: subscribedAtATime, http.StatusServiceUnavailable: asked - subscribedAtATime}, counts)
	})
}

func TestUnreadSubscribedAnswersAreBounded(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	types := make([]string, 10_000)
	for i := range types {
		types[i] = fmt.Sprintf("order-%d.v1", i)
	}
	h := newHandler(Deps{
		Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		Subscriptions: specsFunc(func() ([]eventingv1alpha2.SubscriptionSpec, error) {
			return []eventingv1alpha2.SubscriptionSpec{{Source: "shop", Types: types}}, nil
		}),
	}, options)
	require.True(t, h.answers.acquire(options.MaxBytesInFlight/answerShare-100_000))
	ask := func() int {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/shop/v1/events/subscribed", nil)
		r.SetPathValue("application", "shop")
		h.subscribed(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusServiceUnavailable, ask())
	h.answers.release(options.MaxBytesInFlight/answerShare - 100_000)
	require.Equal(t, http.StatusOK, ask())
	require.Zero(t, h.answers.used.Load())
}
