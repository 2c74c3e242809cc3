package subscription

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// awaitDeadLetterConsumer waits until there is a consumer for a Subscription's dead letters, or none.
func (w *fixture) awaitDeadLetterConsumer(sub *eventingv1alpha2.Subscription, what string, holds func(broker.Consumer, bool) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return holds(w.consumerOf(broker.DeadLetterStream, sub)) }, timeout, tick, what)
}

// awaitDeadLetterSink waits for the condition.
func (w *fixture) awaitDeadLetterSink(sub *eventingv1alpha2.Subscription, want eventingv1alpha2.ConditionReason) {
	w.t.Helper()
	w.awaitStatus(sub, string(want), func(status eventingv1alpha2.SubscriptionStatus) bool {
		return len(own(status)) == 3 && status.Conditions[2].Reason == want
	})
	require.Equal(w.t, eventingv1alpha2.ConditionDeadLetterSink, sub.Status.Conditions[2].Type)
	require.True(w.t, sub.Status.Ready, "events do not depend on it")
}

func TestASinkOfDeadLettersHasAConsumerAndACondition(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	deadLetterSink := "http://dead-letters." + w.namespace + ".svc.cluster.local"
	sub := w.create("orders", func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Delivery = deadLettersTo(deadLetterSink + "/?token=secret")
	})

	unfound := "Sink validation failed: service dead-letters." + w.namespace + " not found in the cluster"
	w.awaitStatus(sub, unfound, func(status eventingv1alpha2.SubscriptionStatus) bool { // at first its stream may not be there either
		return len(own(status)) == 3 && status.Conditions[2].Message == unfound
	})
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonNoDeadLetterSink)
	consumer, ok := w.consumerOf(broker.DeadLetterStream, sub)
	require.True(t, ok, "dead letters wait for it")
	require.Equal(t, []string{"rouse.deadletter." + w.namespace + ".orders"}, consumer.Subjects)
	require.Equal(t, broker.MaxDeadLettersPending, consumer.MaxAckPending)
	require.Equal(t, deadLetterSink+"/", consumer.Metadata[broker.MetadataSink])

	service := w.createService("dead-letters")
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonDeadLetterSink)
	require.NoError(t, w.Delete(t.Context(), service))
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonNoDeadLetterSink)

	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Delivery = deadLettersTo("dead-letters") })
	w.awaitStatus(sub, "the error is reported", func(status eventingv1alpha2.SubscriptionStatus) bool { return !status.Ready })
	require.Equal(t, `Subscription validation failed: spec.delivery.deadLetter.sink: Invalid value: "dead-letters": must have URL scheme 'http' or 'https'`,
		sub.Status.Conditions[0].Message)
	w.awaitDeadLetterConsumer(sub, "the consumer stays", exists)

	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Delivery = deadLettersTo(deadLetterSink) })
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonNoDeadLetterSink)
	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Delivery = nil })
	w.awaitDeadLetterConsumer(sub, "the consumer goes with the field", missing)
	w.awaitStatus(sub, "and the condition", func(status eventingv1alpha2.SubscriptionStatus) bool { return len(own(status)) == 2 })

	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Delivery = deadLettersTo(deadLetterSink) })
	w.awaitDeadLetterConsumer(sub, "it is made again", exists)
	require.NoError(t, w.Delete(t.Context(), sub))
	w.awaitDeadLetterConsumer(sub, "the consumer goes with its Subscription", missing)
}

func TestConsumersOfDeadLettersFollowTheirSubscriptions(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	w.createService("dead-letters")
	sub := w.create("orders", func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Delivery = deadLettersTo("http://dead-letters." + w.namespace + ".svc.cluster.local")
	})
	plain := w.create("plain")
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonDeadLetterSink)
	w.awaitReady(plain)

	require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DeadLetterStream, routing.ConsumerName(sub.Namespace, sub.Name)))
	for _, name := range []string{"gone", "plain"} { // one without a Subscription, one whose Subscription has no such sink
		key := client.ObjectKey{Namespace: w.namespace, Name: name}
		require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DeadLetterStream, broker.ConsumerOf(routing.Route{
			Subscription: key, Consumer: routing.ConsumerName(key.Namespace, key.Name),
			Subjects: []string{routing.DeadLetterSubject(key)}, OfDeadLetters: true,
		})))
	}
	others := broker.Consumer{Name: "somebody-elses", Subjects: []string{"rouse.deadletter.>"}}
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DeadLetterStream, others))

	w.nats.Restart()
	want := []string{routing.ConsumerName(sub.Namespace, sub.Name), "somebody-elses"}
	slices.Sort(want)
	require.Eventually(t, func() bool {
		consumers, err := w.conn.Consumers(t.Context(), broker.DeadLetterStream)
		if err != nil {
			return false
		}
		var names []string
		for _, consumer := range consumers {
			names = append(names, consumer.Name)
		}
		slices.Sort(names)
		return slices.Equal(names, want)
	}, timeout, tick)
}

func deadLettersTo(sink string) *eventingv1alpha2.Delivery {
	return &eventingv1alpha2.Delivery{DeadLetter: &eventingv1alpha2.DeadLetter{Sink: sink}}
}
