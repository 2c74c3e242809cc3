package scaler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestDeadLettersWakeTheirSinkFunction(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	deadLetters := routeTo(shop, "dead-letters", "orders", routing.DeadLetterSubject(types.NamespacedName{Namespace: shop, Name: "orders"}))
	deadLetters.OfDeadLetters = true
	order.DeadLetters = &deadLetters
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.broker.create(order, deadLetters)
		r.routes.post([]routing.Route{order})
		r.start()
		ask := func(function string) float64 {
			value, _, err := r.ask(r.ref(function))
			require.NoError(t, err)
			return value
		}
		require.Zero(t, ask("order"))
		require.Zero(t, ask("dead-letters"))
		synctest.Wait()

		r.broker.publish(orderPlaced)
		advance(time.Second)
		require.InDelta(t, 1, ask("order"), 0)
		require.Zero(t, ask("dead-letters"), "an event is no dead letter")

		r.broker.set(order, broker.Backlog{})
		r.broker.publish(deadLetters.Subjects[0])
		synctest.Wait()
		require.InDelta(t, 1, ask("dead-letters"), 0, "it wakes the Function")
		advance(time.Minute)
		require.InDelta(t, 1, ask("dead-letters"), 0, "and counted")
		require.Zero(t, ask("order"), "what it could not take is not its work any more")

		r.broker.set(deadLetters, broker.Backlog{AckPending: 1})
		advance(time.Minute)
		require.InDelta(t, 1, ask("dead-letters"), 0, "a dead letter that waits for another attempt keeps it awake")
		r.broker.set(deadLetters, broker.Backlog{})
		advance(time.Minute)
		require.Zero(t, ask("dead-letters"))
	})
}
