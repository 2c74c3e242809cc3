package eventbridge

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// deadLetterFixture is a fixture whose Subscription has a dead-letter sink.
type deadLetterFixture struct {
	*fixture

	route               routing.Route
	deadLetterEndpoints *loopback.Endpoints // of the sink of dead letters
}

// newDeadLetterFixture is a fixture with a sink, which refuses all, and one for dead letters.
func newDeadLetterFixture(t *testing.T, endpoints ...routing.Endpoint) *deadLetterFixture {
	t.Helper()
	price := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such order", http.StatusUnprocessableEntity)
	})
	y := &deadLetterFixture{fixture: newFixture(t, loopback.Ready(price.Address())), route: orders(sinkURL), deadLetterEndpoints: loopback.NewEndpoints(endpoints...)}
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
	require.NoError(t, y.conn.EnsureConsumer(t.Context(), broker.DeadLetterStream, broker.Consumer{ // as the controller makes it
		Name: y.route.Consumer, Subjects: y.route.DeadLetters.Subjects, StartFrom: broker.StartFrom{Policy: broker.StartAll},
		AckWait: y.ackWait, MaxAckPending: broker.MaxDeadLettersPending,
	}))
	y.routes.set(y.route)
	return y
}

func (y *deadLetterFixture) start(t *testing.T) *replica {
	t.Helper()
	return y.fixture.start(t, func(deps *Deps, _ *Options) {
		deps.Endpoints = perService{y.route.Service: y.endpoints, y.route.DeadLetters.Service: y.deadLetterEndpoints}
	})
}

// awaitUndelivered waits until so many dead letters have not reached their sink.
func (y *deadLetterFixture) awaitUndelivered(t *testing.T, want uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		backlog, err := y.conn.Backlog(t.Context(), broker.DeadLetterStream, y.route.Consumer)
		return err == nil && backlog.Total() == want
	}, timeout, tick, "not %d dead letters wait for their sink", want)
}

// awaitDeadLetters waits until so many are kept.
func (y *deadLetterFixture) awaitDeadLetters(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return y.deadLetters(t) == want }, timeout, tick, "there are not %d dead letters", want)
}

func TestDeadLettersReachTheirSinkWithTheReason(t *testing.T) {
	t.Parallel()
	deadLetterSink := loopback.StartSink(t, nil)
	y := newDeadLetterFixture(t, loopback.Ready(deadLetterSink.Address()))
	r := y.start(t)
	r.publishMany(t, 0, 3)
	y.backlogIs(t, 0, 0)
	deadLetters := deadLetterSink.Await(t, 3)
	y.awaitUndelivered(t, 0)
	require.Equal(t, once(3), deadLetterSink.Deliveries())
	require.Equal(t, 3, y.deadLetters(t), "they are kept though they are delivered")
	for _, deadLetter := range deadLetters {
		require.Equal(t, "dead-letters.shop.svc.cluster.local", deadLetter.Host)
		require.Equal(t, "/in", deadLetter.URI)
		require.JSONEq(t, `{"order":"`+deadLetter.ID()+`"}`, string(deadLetter.Body))
		for name, want := range map[string]string{
			"Ce-Type": "order.received.v1", "Ce-Source": "shop", "Content-Type": "application/json",
			"Ce-Rousereason": "SinkRejected", "Ce-Rousemessage": "sink refused the event", "Ce-Rouseattempts": "1", "Ce-Rousestatus": "422",
			"Ce-Rouseexcerpt": "no such order", "Ce-Rousesubscription": "shop/orders",
		} {
			require.Equal(t, want, deadLetter.Header.Get(name), name)
		}
		given, err := time.Parse(time.RFC3339Nano, deadLetter.Header.Get("Ce-Rousetime"))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), given, time.Hour)
	}
	_, metrics := get(t, r.metricsURL)
	require.Contains(t, metrics, `rouse_eventbridge_dead_letter_sink_deliveries_total{namespace="shop",outcome="ack",subscription="orders"} 3`)
	require.Contains(t, metrics, `rouse_eventbridge_deliveries_total{namespace="shop",outcome="reject",subscription="orders"} 3`)
	require.Contains(t, metrics, `rouse_eventbridge_deliveries_total{namespace="shop",outcome="ack",subscription="orders"} 0`)
}

func TestAFailingDeadLetterSinkBlocksNoOthersAndGetsAllDeadLetters(t *testing.T) {
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
			deadLetterSink := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
				if !healthy.Load() {
					w.WriteHeader(status)
				}
			})
			y := newDeadLetterFixture(t, loopback.Ready(deadLetterSink.Address()))
			r := y.start(t)
			r.publishMany(t, 0, many)
			deadLetterSink.Await(t, 1)
			y.backlogIs(t, 0, 0)
			y.awaitDeadLetters(t, many)
			y.awaitUndelivered(t, many)
			deadLetterSink.Await(t, 12)
			require.Equal(t, many, y.deadLetters(t), "a dead letter became another")

			healthy.Store(true)
			y.awaitUndelivered(t, 0)
			delivered := deadLetterSink.Deliveries()
			for i := range many {
				require.Positive(t, delivered[strconv.Itoa(i)], "dead letter %d", i)
			}
			require.Equal(t, many, y.deadLetters(t))
			y.backlogIs(t, 0, 0)
		})
	}
}

func TestDeadLettersWaitForAMissingSink(t *testing.T) {
	t.Parallel()
	deadLetterSink := loopback.StartSink(t, nil)
	y := newDeadLetterFixture(t)
	first := y.start(t)
	first.publishMany(t, 0, 5)
	y.backlogIs(t, 0, 0)
	y.awaitUndelivered(t, 5)
	require.Empty(t, deadLetterSink.Requests())
	require.NoError(t, first.stop())

	y.deadLetterEndpoints.Set(loopback.Ready(deadLetterSink.Address()))
	y.start(t)
	y.awaitUndelivered(t, 0)
	require.Equal(t, once(5), deadLetterSink.Deliveries(), "a restart delivers what was left, and nothing else")
}

func TestARestartDeliversTheDeadLettersThatAreLeft(t *testing.T) {
	t.Parallel()
	var healthy atomic.Bool
	deadLetterSink := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		if number, _ := strconv.Atoi(r.Header.Get("Ce-Id")); number >= 3 && !healthy.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	y := newDeadLetterFixture(t, loopback.Ready(deadLetterSink.Address()))
	first := y.start(t)
	first.publishMany(t, 0, 8)
	y.awaitDeadLetters(t, 8)
	y.awaitUndelivered(t, 5)
	require.NoError(t, first.stop())
	healthy.Store(true)
	y.start(t)
	y.awaitUndelivered(t, 0)
	delivered := deadLetterSink.Deliveries()
	for i := range 8 {
		require.Positive(t, delivered[strconv.Itoa(i)], "dead letter %d", i)
	}
	for i := range 3 {
		require.Equal(t, 1, delivered[strconv.Itoa(i)], "what was taken before comes no more")
	}
}

func TestBridgesShareTheDeadLetters(t *testing.T) {
	t.Parallel()
	deadLetterSink := loopback.StartSink(t, nil)
	y := newDeadLetterFixture(t, loopback.Ready(deadLetterSink.Address()))
	first, _, _ := y.start(t), y.start(t), y.start(t)
	first.publishMany(t, 0, 60)
	y.awaitDeadLetters(t, 60)
	deadLetterSink.Await(t, 60) // a consumer may count a dead letter later than its stream
	y.awaitUndelivered(t, 0)
	require.Equal(t, once(60), deadLetterSink.Deliveries())
}

func TestDeadLettersStayWhenTheirSinkIsRemoved(t *testing.T) {
	t.Parallel()
	deadLetterSink := loopback.StartSink(t, nil)
	y := newDeadLetterFixture(t, loopback.Ready(deadLetterSink.Address()))
	r := y.start(t)
	r.publishMany(t, 0, 1)
	deadLetterSink.Await(t, 1) // a consumer may count a dead letter later than its stream
	y.awaitUndelivered(t, 0)

	without := y.route
	without.DeadLetters = nil
	y.routes.set(without)
	require.Eventually(t, func() bool {
		_, metrics := get(t, r.metricsURL)
		return !strings.Contains(metrics, "rouse_eventbridge_dead_letter_sink_deliveries_total{")
	}, timeout, tick, "its dispatcher goes, and its metrics")
	r.publishMany(t, 1, 4)
	y.awaitDeadLetters(t, 5)
	y.awaitUndelivered(t, 4)
	require.Len(t, deadLetterSink.Requests(), 1)

	y.routes.set(y.route)
	y.awaitUndelivered(t, 0)
	require.Equal(t, once(5), deadLetterSink.Deliveries())
}

func TestAPausedSubscriptionKeepsItsDeadLetters(t *testing.T) {
	t.Parallel()
	deadLetterSink := loopback.StartSink(t, nil)
	y := newDeadLetterFixture(t)
	r := y.start(t)
	r.publishMany(t, 0, 2)
	y.awaitDeadLetters(t, 2)
	paused, deadLetters := y.route, *y.route.DeadLetters
	paused.Paused, deadLetters.Paused = true, true
	paused.DeadLetters = &deadLetters
	y.routes.set(paused)
	y.deadLetterEndpoints.Set(loopback.Ready(deadLetterSink.Address()))
	y.awaitUndelivered(t, 2)
	y.routes.set(y.route)
	y.awaitUndelivered(t, 0)
	require.Equal(t, once(2), deadLetterSink.Deliveries())
}

func TestAnUndecodableMessageReachesTheDeadLetterSinkAsAnEvent(t *testing.T) {
	t.Parallel()
	deadLetterSink := loopback.StartSink(t, nil)
	y := newDeadLetterFixture(t, loopback.Ready(deadLetterSink.Address()))
	y.nats.Publish(t, subject, []byte("no event"))
	y.start(t)
	deadLetter := deadLetterSink.Await(t, 1)[0]
	require.Equal(t, "no event", string(deadLetter.Body))
	require.Equal(t, broker.TypeUndecodable, deadLetter.Header.Get("Ce-Type"))
	require.Equal(t, "NotACloudEvent", deadLetter.Header.Get("Ce-Rousereason"))
	require.Equal(t, "message is not a CloudEvent", deadLetter.Header.Get("Ce-Rousemessage"))
	y.awaitUndelivered(t, 0)
}

func TestDeadLettersThatAreDroppedAreCounted(t *testing.T) {
	t.Parallel()
	refusing := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) })
	w := newFixture(t, loopback.Ready(refusing.Address()))
	w.nats.Change(natstest.WithMaxPayload(32 << 10))
	streams := broker.DefaultStreamOptions()
	streams.DeadLetterMaxBytes = 64 << 10
	require.Eventually(t, func() bool { return w.conn.EnsureStreams(t.Context(), streams) == nil }, timeout, tick)
	r := w.start(t)
	r.publishMany(t, 0, 200)
	w.backlogIs(t, 0, 0)
	_, metrics := get(t, r.metricsURL)
	require.Contains(t, metrics, `rouse_eventbridge_dead_letters_total{namespace="shop",reason="SinkRejected",subscription="orders"} 200`)
	require.Contains(t, metrics, `rouse_eventbridge_dead_letters_dropped_total{namespace="shop"}`)
	kept := w.deadLetters(t)
	require.Positive(t, kept)
	require.Less(t, kept, 200)
}

func TestAnOperatorRedrivesDeadLettersOverTheAdminAPI(t *testing.T) {
	t.Parallel()
	var repaired atomic.Bool
	price := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
		if !repaired.Load() {
			http.Error(w, "no such order", http.StatusBadRequest)
		}
	})
	w := newFixture(t, loopback.Ready(price.Address()))
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{ // as the controller makes it
		Name: orders(sinkURL).Consumer, Description: "shop/orders", Subjects: orders(sinkURL).Subjects,
		AckWait: w.ackWait, MaxAckPending: orders(sinkURL).MaxInFlight,
	}))
	var listener net.Listener
	events := journal.New(100)
	r := w.start(t, func(deps *Deps, _ *Options) {
		listener = listen(t)
		deps.AdminListener = listener
		deps.Journal = events
		deps.Admin = jetstream.NewAdminStore(w.conn, broker.DefaultStream, events)
		deps.AdminAccess = identity.Token("secret")
	})
	ask := func(method, path, body string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer secret")
		response, err := loopback.Default.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		answered, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(answered)
	}

	r.publishMany(t, 0, 3)
	price.Await(t, 3)
	w.backlogIs(t, 0, 0)
	require.Equal(t, 3, w.deadLetters(t))
	status, text := ask("GET", "/v1/deadletters?namespace=shop&subscription=orders&limit=2", "")
	require.Equal(t, 200, status)
	require.Contains(t, text, `"status":400,"excerpt":"no such order"`)
	require.Contains(t, text, `"next":2`)
	status, text = ask("GET", "/v1/subscriptions", "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"subscriptions":[{"namespace":"shop","name":"orders","consumer":true,"backlog":0,"ackPending":0,`+
		`"waitingRetries":0,"deadLetters":3}]}`, text)

	repaired.Store(true)
	status, text = ask("POST", "/v1/deadletters/redrive", `{"namespace":"shop","subscription":"orders"}`)
	require.Equal(t, 200, status, text)
	require.JSONEq(t, `{"redriven":3,"failed":0,"remaining":0}`, text)
	again := price.Await(t, 6)[3:]
	w.backlogIs(t, 0, 0)
	require.Zero(t, w.deadLetters(t))
	for _, request := range again {
		require.Contains(t, string(request.Body), `{"order":"`+request.Header.Get("Ce-Id")+`"}`)
		require.Equal(t, "order.received.v1", request.Header.Get("Ce-Type"))
		require.Empty(t, request.Header.Get("Ce-Rousereason"), "the event is not the original")
	}
	redriven := events.Recent(journal.Query{Kinds: []journal.Kind{journal.Redriven}, Namespace: "shop", Subscription: "orders"})
	require.Len(t, redriven, 3)
	require.NotEmpty(t, redriven[0].ID)
	require.NotEmpty(t, redriven[0].Trace)
	status, _ = ask("POST", "/v1/deadletters/redrive", `{"sequence":1}`)
	require.Equal(t, 404, status)
}
