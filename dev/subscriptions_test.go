package dev

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const subscriptionsTimeout = time.Minute

func subscription(t *testing.T, name string, change ...func(*eventingv1alpha2.Subscription)) manifest.Subscription {
	t.Helper()
	sub := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "orders", Name: name},
		Spec: eventingv1alpha2.SubscriptionSpec{
			Source: "shop", Types: []string{"order." + name}, Sink: "http://" + name + ".orders.svc.cluster.local",
		},
	}
	for _, c := range change {
		c(sub)
	}
	route, err := routing.FromSubscription(sub, routing.Policy{})
	require.NoError(t, err)
	return manifest.Subscription{Subscription: sub, Route: route}
}

func withDeadLetters(sub *eventingv1alpha2.Subscription) {
	sub.Spec.Delivery = &eventingv1alpha2.Delivery{DeadLetter: &eventingv1alpha2.DeadLetter{Sink: "http://letters.orders.svc.cluster.local"}}
}

func of(subs ...manifest.Subscription) manifest.Set { return manifest.Set{Subscriptions: subs} }

// subscriptionsFixture runs Subscriptions on a real nats-server.
type subscriptionsFixture struct {
	*subscriptionWorkers

	conn *broker.Conn
	seen *observed
}

// observed holds the routes that a watcher applied last.
type observed struct {
	mu      sync.Mutex
	routes  []string
	applied bool
}

func (o *observed) apply(routes []routing.Route) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.applied, o.routes = true, []string{}
	for _, r := range routes {
		o.routes = append(o.routes, r.Subscription.Name)
	}
}

func (o *observed) are(names ...string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.applied || len(o.routes) != len(names) {
		return false
	}
	for i := range names {
		if o.routes[i] != names[i] {
			return false
		}
	}
	return true
}

func start(t *testing.T) subscriptionsFixture {
	t.Helper()
	conn, err := broker.Connect(t.Context(), broker.Options{URL: natstest.Start(t).URL(), Name: "dev"}, logr.Discard())
	require.NoError(t, err)
	require.Eventually(t, conn.Connected, subscriptionsTimeout, time.Millisecond)
	streams := broker.DefaultStreamOptions()
	streams.Storage = "memory"
	w := subscriptionsFixture{conn: conn, seen: &observed{}}
	w.subscriptionWorkers = newSubscriptions(conn, streams, func(types.NamespacedName, error) {}, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	running.Go(func() { _ = w.Watch(ctx, w.seen.apply) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = conn.Close(context.WithoutCancel(t.Context()))
	})
	return w
}

func TestSubscriptionStatusHasItsState(t *testing.T) {
	t.Parallel()
	paused := func(sub *eventingv1alpha2.Subscription) { sub.Spec.Paused = true }
	wrong := subscription(t, "wrong")
	wrong.Route.Subjects = []string{"kyma.shop.*", "kyma.shop.order"}
	w := start(t)
	set := of(subscription(t, "created"), subscription(t, "paid", paused), wrong)
	w.mu.Lock()
	w.wanted = want(set, nil, nil) // like Apply, without waiting for the consumers
	w.mu.Unlock()
	require.Equal(t, []string{"created preparing", "paid preparing", "wrong preparing"}, states(w.Status()))
	w.Apply(set, nil)
	require.Eventually(t, func() bool {
		return slices.Equal([]string{"created ready", "paid paused", "wrong failing"}, states(w.Status()))
	}, subscriptionsTimeout, time.Millisecond)
	all := w.Status()
	require.Equal(t, SubscriptionStatus{
		Namespace: "orders", Name: "created", Source: "shop", Types: []string{"order.created"},
		Sink: "http://created.orders.svc.cluster.local", State: Ready,
	}, all[0])
	require.Contains(t, all[2].Message, "overlap")
}

func states(all []SubscriptionStatus) []string {
	var found []string
	for _, s := range all {
		found = append(found, s.Name+" "+s.State)
	}
	return found
}

func (w subscriptionsFixture) settle(t *testing.T) {
	t.Helper()
	select {
	case <-w.Settled():
	case <-time.After(subscriptionsTimeout):
		require.FailNow(t, "it does not settle")
	}
}

func (w subscriptionsFixture) names(t *testing.T, stream string) []string {
	t.Helper()
	consumers, err := w.conn.Consumers(t.Context(), stream)
	require.NoError(t, err)
	var names []string
	for _, c := range consumers {
		if key, ours := broker.SubscriptionOf(c); ours {
			names = append(names, key.Name)
		}
	}
	return names
}

func TestSubscriptionsHaveConsumersAndThenRoutes(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, err := w.Specs(t.Context())
	require.ErrorIs(t, err, errUnknown)
	require.False(t, w.seen.are(), "no routes are published before the folder is read")

	w.Apply(of(subscription(t, "pricing", withDeadLetters), subscription(t, "invoicing")), nil)
	w.settle(t)
	require.ElementsMatch(t, []string{"pricing", "invoicing"}, w.names(t, broker.DefaultStream))
	require.Equal(t, []string{"pricing"}, w.names(t, broker.DeadLetterStream))
	require.Eventually(t, func() bool { return w.seen.are("invoicing", "pricing") }, subscriptionsTimeout, time.Millisecond)
	specs, err := w.Specs(t.Context())
	require.NoError(t, err)
	require.Len(t, specs, 2)

	w.Apply(of(subscription(t, "pricing")), nil)
	w.settle(t)
	require.Equal(t, []string{"pricing"}, w.names(t, broker.DefaultStream))
	require.Empty(t, w.names(t, broker.DeadLetterStream), "there is no sink for them any more")
	require.Eventually(t, func() bool { return w.seen.are("pricing") }, subscriptionsTimeout, time.Millisecond)

	w.Apply(of(), nil)
	w.settle(t)
	require.Empty(t, w.names(t, broker.DefaultStream))
	require.Eventually(t, func() bool { return w.seen.are() }, subscriptionsTimeout, time.Millisecond)
}

func TestTemporarilyInvalidSubscriptionLosesNoEvents(t *testing.T) {
	t.Parallel()
	wrong := func(object string) []manifest.Problem {
		return []manifest.Problem{{Object: object, Message: "is wrong"}}
	}
	for name, tc := range map[string]struct {
		problems []manifest.Problem
		kept     bool
	}{
		"the Subscription has a problem":            {wrong("Subscription orders/pricing"), true},
		"a file cannot be read":                     {wrong(""), true},
		"another Subscription has a problem":        {wrong("Subscription orders/other"), false},
		"a Function of the same name has a problem": {wrong("Function orders/pricing"), false},
		"the Subscription has a warning":            {[]manifest.Problem{{Object: "Subscription orders/pricing", Warning: true}}, false},
		"the Subscription was removed":              {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			w.Apply(of(subscription(t, "pricing")), nil)
			w.settle(t)
			w.Apply(of(), tc.problems)
			w.settle(t)
			require.Equal(t, tc.kept, len(w.names(t, broker.DefaultStream)) == 1)
			if tc.kept {
				require.Eventually(t, func() bool { return w.seen.are("pricing") }, subscriptionsTimeout, time.Millisecond)
			}
		})
	}
}

func TestInvalidSubscriptionKeepsTheConsumerOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	w := start(t)
	streams := broker.DefaultStreamOptions()
	streams.Storage = "memory"
	require.NoError(t, w.conn.EnsureStreams(t.Context(), streams))
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), streams.Name, broker.ConsumerOf(subscription(t, "pricing").Route)))
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), streams.Name, broker.Consumer{Name: "foreign", Subjects: []string{"kyma.x"}}))
	w.Apply(of(), []manifest.Problem{{Object: "Subscription orders/pricing"}})
	w.settle(t)
	require.Equal(t, []string{"pricing"}, w.names(t, broker.DefaultStream))
	w.Apply(of(), nil)
	w.settle(t)
	require.Empty(t, w.names(t, broker.DefaultStream))
	all, err := w.conn.Consumers(t.Context(), streams.Name)
	require.NoError(t, err)
	require.Len(t, all, 1, "foreign consumers must stay")
}

func TestDeletedConsumerIsRecreatedAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	sub := subscription(t, "pricing")
	w.Apply(of(sub), nil)
	w.settle(t)
	require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DefaultStream, sub.Route.Consumer))
	require.Eventually(t, func() bool { return len(w.names(t, broker.DefaultStream)) == 1 }, checkInterval/2, 5*time.Millisecond)
}

// store renames the method.
type store interface{ Consumers }

// broken rejects the consumer of one Subscription.
type broken struct {
	store

	name string
	mu   sync.Mutex
	err  error
}

func (b *broken) EnsureConsumer(ctx context.Context, stream string, c broker.Consumer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Name == routing.ConsumerName("orders", b.name) && b.err != nil {
		return b.err
	}
	return b.store.EnsureConsumer(ctx, stream, c)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestStreamsThatCannotBeCreatedAreNotOpened(t *testing.T) {
	t.Parallel()
	w := start(t)
	streams := broker.DefaultStreamOptions()
	streams.Storage, streams.Replicas = "memory", 3 // on a single server
	s := newSubscriptions(w.conn, streams, func(types.NamespacedName, error) {}, logr.Discard())
	s.Apply(of(subscription(t, "pricing")), nil)
	require.Error(t, s.sync(t.Context()))
	require.False(t, closed(s.Opened()))
}

func TestFailingSubscriptionIsReportedOnceAndStopsNoOther(t *testing.T) {
	t.Parallel()
	w := start(t)
	b := &broken{store: w.conn, name: "pricing", err: errors.New("subjects overlap")}
	reports := make(chan error, 10)
	streams := broker.DefaultStreamOptions()
	streams.Storage = "memory"
	s := newSubscriptions(b, streams, func(name types.NamespacedName, err error) {
		if name.Name == "pricing" {
			reports <- err
		}
	}, logr.Discard())
	s.Apply(of(subscription(t, "pricing"), subscription(t, "invoicing")), nil)
	require.False(t, closed(s.Opened()))
	require.Error(t, s.sync(t.Context()))
	require.True(t, closed(s.Opened()), "the streams take the events of the other one")
	require.False(t, closed(s.Settled()))
	require.Error(t, s.sync(t.Context()))
	require.EqualError(t, <-reports, "subjects overlap")
	require.Empty(t, reports, "it was reported before")
	require.Len(t, s.routes, 1)
	b.mu.Lock()
	b.err = nil
	b.mu.Unlock()
	require.NoError(t, s.sync(t.Context()))
	require.NoError(t, <-reports, "it is over")
	require.Len(t, s.routes, 2)
}

func TestADeliveryWaitsNoLongerThanItsFunctionMayBeSilent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ own, silence, want time.Duration }{
		"a Function without a limit":      {0, 0, 0},
		"a Function with a limit":         {0, 11 * time.Second, 11 * time.Second},
		"a Subscription that waits less":  {5 * time.Second, 11 * time.Second, 5 * time.Second},
		"a Subscription that waits more":  {20 * time.Second, 11 * time.Second, 11 * time.Second},
		"a limit beyond that of a bridge": {0, time.Hour, 0},
	} {
		require.Equal(t, tc.want, answerWithin(routing.Route{Delivery: routing.Delivery{Timeout: tc.own}}, tc.silence), name)
	}
}
