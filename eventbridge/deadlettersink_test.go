package eventbridge

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/sinktest"
)

// deadLetterFixture is a fixture whose Subscription names a sink for its dead letters.
type yard struct {
	*world

	route  routing.Route
	graves *sinktest.Endpoints // of the sink of dead letters
}

// newDeadLetterFixture is a fixture with a sink, which refuses all, and one for dead letters.
func newYard(t *testing.T, endpoints ...routing.Endpoint) *yard {
	t.Helper()
	price := sinktest.Start(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such order", http.StatusUnprocessableEntity)
	})
	y := &yard{world: newWorld(t, sinktest.Ready(price.Address())), route: orders(sinkURL), graves: sinktest.NewEndpoints(endpoints...)}
	y.route.DeadLetters = &routing.Route{
		Subscription:  y.route.Subscription,
		Consumer:      y.route.Consumer,
		Subjects:      []string{routing.DeadLetterSubject(y.route.Subscription)},
		Sink:          "http://dead-letters.shop.svc.cluster.local/in",
		Service:       types.NamespacedName{Namespace: "shop", Name: "dead-letters"},
		Port:          80,
		MaxInFlight:   10,
		OfDeadLetters: true,
	}
	require.NoError(t, y.store.conn.EnsureConsumer(t.Context(), broker.DeadLetterStream, broker.Consumer{ // as the controller makes it
		Name: y.route.Consumer, Subjects: y.route.DeadLetters.Subjects, StartFrom: broker.StartFrom{Policy: broker.StartAll},
		AckWait: y.ackWait, MaxAckPending: broker.MaxLettersPending,
	}))
	y.routes.set(y.route)
	return y
}

func (y *yard) start(t *testing.T) *replica {
	t.Helper()
	return y.world.start(t, func(deps *Deps, _ *Options) {
		deps.Endpoints = perService{y.route.Service: y.endpoints, y.route.DeadLetters.Service: y.graves}
	})
}

// awaitUndelivered waits until so many dead letters have not reached their sink.
func (y *yard) lettersWait(t *testing.T, want uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		backlog, err := y.store.conn.Backlog(t.Context(), broker.DeadLetterStream, y.route.Consumer)
		return err == nil && backlog.Total() == want
	}, patience, tick, "not %d dead letters wait for their sink", want)
}

// awaitDeadLetters waits until so many are kept.
func (y *yard) lettersAre(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return y.deadLetters(t) == want }, patience, tick, "there are not %d dead letters", want)
}

func TestDeadLettersReachTheirSinkWithTheReason(t *testing.T) {
	t.Parallel()
	graveyard := sinktest.Start(t, nil)
	y := newYard(t, sinktest.Ready(graveyard.Address()))
	r := y.start(t)
	r.publishMany(t, 0, 3)
	y.backlogIs(t, 0, 0)
	letters := graveyard.Await(t, 3)
	y.lettersWait(t, 0)
	require.Equal(t, once(3), graveyard.Deliveries())
	require.Equal(t, 3, y.deadLetters(t), "they are kept though they are delivered")
	for _, letter := range letters {
		require.Equal(t, "dead-letters.shop.svc.cluster.local", letter.Host)
		require.Equal(t, "/in", letter.URI)
		require.JSONEq(t, `{"order":"`+letter.ID()+`"}`, string(letter.Body))
		for name, want := range map[string]string{
			"Ce-Type": "order.received.v1", "Ce-Source": "shop", "Content-Type": "application/json",
			"Ce-Rousereason": "SinkRejected", "Ce-Rousemessage": "sink refused the event", "Ce-Rouseattempts": "1", "Ce-Rousestatus": "422",
			"Ce-Rouseexcerpt": "no such order", "Ce-Rousesubscription": "shop/orders",
		} {
			require.Equal(t, want, letter.Header.Get(name), name)
		}
		given, err := time.Parse(time.RFC3339Nano, letter.Header.Get("Ce-Rousetime"))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), given, time.Hour)
	}
	_, metrics := get(t, r.metricsURL)
	require.Contains(t, metrics, `rouse_eventbridge_dead_letter_sink_deliveries_total{namespace="shop",outcome="ack",subscription="orders"} 3`)
	require.Contains(t, metrics, `rouse_eventbridge_deliveries_total{namespace="shop",outcome="reject",subscription="orders"} 3`)
	require.Contains(t, metrics, `rouse_eventbridge_deliveries_total{namespace="shop",outcome="ack",subscription="orders"} 0`)
}

func TestAFailingSinkOfDeadLettersHoldsUpNobodyAndGetsThemInTheEnd(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{
		"it refuses":     http.StatusBadRequest,
		"it fails":       http.StatusInternalServerError,
		"it is strained": http.StatusServiceUnavailable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const many = 100 // more than one bridge holds
			var healthy atomic.Bool
			graveyard := sinktest.Start(t, func(w http.ResponseWriter, _ *http.Request) {
				if !healthy.Load() {
					w.WriteHeader(status)
				}
			})
			y := newYard(t, sinktest.Ready(graveyard.Address()))
			r := y.start(t)
			r.publishMany(t, 0, many)
			graveyard.Await(t, 1)
			y.backlogIs(t, 0, 0)
			y.lettersAre(t, many)
			y.lettersWait(t, many)
			graveyard.Await(t, 12)
			require.Equal(t, many, y.deadLetters(t), "a dead letter became another")

			healthy.Store(true)
			y.lettersWait(t, 0)
			delivered := graveyard.Deliveries()
			for i := range many {
				require.Positive(t, delivered[strconv.Itoa(i)], "dead letter %d", i)
			}
			require.Equal(t, many, y.deadLetters(t))
			y.backlogIs(t, 0, 0)
		})
	}
}

func TestDeadLettersWaitForASinkThatIsNotThere(t *testing.T) {
	t.Parallel()
	graveyard := sinktest.Start(t, nil)
	y := newYard(t)
	first := y.start(t)
	first.publishMany(t, 0, 5)
	y.backlogIs(t, 0, 0)
	y.lettersWait(t, 5)
	require.Empty(t, graveyard.Requests())
	require.NoError(t, first.stop())

	y.graves.Set(sinktest.Ready(graveyard.Address()))
	y.start(t)
	y.lettersWait(t, 0)
	require.Equal(t, once(5), graveyard.Deliveries(), "a restart delivers what was left, and nothing else")
}

func TestARestartDeliversTheDeadLettersThatAreLeft(t *testing.T) {
	t.Parallel()
	var healthy atomic.Bool
	graveyard := sinktest.Start(t, func(w http.ResponseWriter, r *http.Request) {
		if number, _ := strconv.Atoi(r.Header.Get("Ce-Id")); number >= 3 && !healthy.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	y := newYard(t, sinktest.Ready(graveyard.Address()))
	first := y.start(t)
	first.publishMany(t, 0, 8)
	y.lettersAre(t, 8)
	y.lettersWait(t, 5)
	require.NoError(t, first.stop())
	healthy.Store(true)
	y.start(t)
	y.lettersWait(t, 0)
	delivered := graveyard.Deliveries()
	for i := range 8 {
		require.Positive(t, delivered[strconv.Itoa(i)], "dead letter %d", i)
	}
	for i := range 3 {
		require.Equal(t, 1, delivered[strconv.Itoa(i)], "what was taken before comes no more")
	}
}

func TestBridgesShareTheDeadLetters(t *testing.T) {
	t.Parallel()
	graveyard := sinktest.Start(t, nil)
	y := newYard(t, sinktest.Ready(graveyard.Address()))
	first, _, _ := y.start(t), y.start(t), y.start(t)
	first.publishMany(t, 0, 60)
	y.lettersAre(t, 60)
	y.lettersWait(t, 0)
	require.Equal(t, once(60), graveyard.Deliveries())
}

func TestDeadLettersStayWhereTheyAreWhenTheirSinkIsTakenAway(t *testing.T) {
	t.Parallel()
	graveyard := sinktest.Start(t, nil)
	y := newYard(t, sinktest.Ready(graveyard.Address()))
	r := y.start(t)
	r.publishMany(t, 0, 1)
	graveyard.Await(t, 1) // a consumer may count a dead letter later than its stream
	y.lettersWait(t, 0)

	without := y.route
	without.DeadLetters = nil
	y.routes.set(without)
	require.Eventually(t, func() bool {
		_, metrics := get(t, r.metricsURL)
		return !strings.Contains(metrics, "rouse_eventbridge_dead_letter_sink_deliveries_total{")
	}, patience, tick, "its dispatcher goes, and its metrics")
	r.publishMany(t, 1, 4)
	y.lettersAre(t, 5)
	y.lettersWait(t, 4)
	require.Len(t, graveyard.Requests(), 1)

	y.routes.set(y.route)
	y.lettersWait(t, 0)
	require.Equal(t, once(5), graveyard.Deliveries())
}

func TestAPausedSubscriptionKeepsItsDeadLetters(t *testing.T) {
	t.Parallel()
	graveyard := sinktest.Start(t, nil)
	y := newYard(t)
	r := y.start(t)
	r.publishMany(t, 0, 2)
	y.lettersAre(t, 2)
	paused, letters := y.route, *y.route.DeadLetters
	paused.Paused, letters.Paused = true, true
	paused.DeadLetters = &letters
	y.routes.set(paused)
	y.graves.Set(sinktest.Ready(graveyard.Address()))
	y.lettersWait(t, 2)
	y.routes.set(y.route)
	y.lettersWait(t, 0)
	require.Equal(t, once(2), graveyard.Deliveries())
}

func TestWhatIsNoEventReachesTheSinkOfDeadLettersAsOne(t *testing.T) {
	t.Parallel()
	graveyard := sinktest.Start(t, nil)
	y := newYard(t, sinktest.Ready(graveyard.Address()))
	y.nats.Publish(t, subject, []byte("no event"))
	y.start(t)
	letter := graveyard.Await(t, 1)[0]
	require.Equal(t, "no event", string(letter.Body))
	require.Equal(t, broker.TypeUndecodable, letter.Header.Get("Ce-Type"))
	require.Equal(t, "NotACloudEvent", letter.Header.Get("Ce-Rousereason"))
	require.Equal(t, "message is not a CloudEvent", letter.Header.Get("Ce-Rousemessage"))
	y.lettersWait(t, 0)
}
