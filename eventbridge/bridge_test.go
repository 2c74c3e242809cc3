package eventbridge

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/never"
)

func TestAPublishedEventIsDeliveredAsItWasPublished(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(price.Address()))
	r := w.start(t)
	status, _ := r.publish(t, "1")
	require.Equal(t, http.StatusNoContent, status)

	request := price.Await(t, 1)[0]
	require.Equal(t, "price.shop.svc.cluster.local", request.Host)
	require.Equal(t, "/in", request.URI)
	require.JSONEq(t, `{"order":"1"}`, string(request.Body))
	for name, want := range map[string]string{
		"Ce-Id": "1", "Ce-Source": "shop", "Ce-Type": "order.received.v1", "Ce-Originaltype": "order.received.v1",
		"Ce-Specversion": "1.0", "Content-Type": "application/json",
	} {
		require.Equal(t, want, request.Header.Get(name), name)
	}
	require.NotEmpty(t, request.Header.Get("Ce-Time"))
	w.backlogIs(t, 0, 0)

	_, metrics := get(t, r.metricsURL+"/metrics")
	require.Contains(t, metrics, `rouse_eventbridge_deliveries_total{namespace="shop",outcome="ack",subscription="orders"} 1`)
	require.Contains(t, metrics, `rouse_eventbridge_gate_open{namespace="shop",subscription="orders"} 1`)
	require.Contains(t, metrics, `eventing_epp_requests_total{code="204",method="POST",path="/publish"} 1`)
}

func TestWithoutAnEndpointEventsStayPendingUntilAFunctionStarts(t *testing.T) {
	t.Parallel()
	var attempts sync.Map
	price := loopback.ReserveSink(t, nil)
	w := newFixture(t)
	r := w.start(t, func(deps *Deps, _ *Options) {
		deps.Log = funcr.New(func(_, args string) {
			if strings.Contains(args, `"msg"="delivery settled"`) {
				attempts.Store(args, true)
			}
		}, funcr.Options{Verbosity: 1})
	})
	r.publishMany(t, 0, 5)
	w.backlogIs(t, 5, 0)

	w.endpoints.Set(loopback.StartingSink(price.Address()))
	never.Happens(t, func() bool { return len(price.Requests()) > 0 }, 100*time.Millisecond, tick)
	w.backlogIs(t, 5, 0)
	price.Restart(t)
	price.Await(t, 5)
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(5), price.Deliveries())
	settled := 0
	attempts.Range(func(line, _ any) bool {
		settled++
		for _, want := range []string{`"subscription"="shop/orders"`, `"id"="`, `"attempt"=1 `, `"outcome"="ack"`, `"started"="2`, `"took"="`} {
			require.Contains(t, line, want, "waiting cost an attempt, or the log lacks a key")
		}
		return true
	})
	require.Equal(t, 5, settled)

	w.endpoints.Set() // scaled to zero: what comes now waits again
	require.Eventually(t, func() bool {
		_, metrics := get(t, r.metricsURL)
		return strings.Contains(metrics, `rouse_eventbridge_gate_open{namespace="shop",subscription="orders"} 0`)
	}, timeout, tick)
	r.publishMany(t, 5, 3)
	w.backlogIs(t, 3, 0)
}

func TestAFailingFunctionIsRetriedUntilItAnswers(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	price := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < 3 {
			http.Error(w, "database is away", http.StatusInternalServerError)
		}
	})
	w := newFixture(t, loopback.Ready(price.Address()))
	w.start(t).publishMany(t, 0, 1)
	price.Await(t, 3)
	w.backlogIs(t, 0, 0)
	require.Zero(t, w.deadLetters(t))
}

func TestARefusedEventIsADeadLetterAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") == "1" {
			http.Error(w, "no such order", http.StatusBadRequest)
		}
	})
	w := newFixture(t, loopback.Ready(price.Address()))
	w.start(t).publishMany(t, 0, 3)
	price.Await(t, 3)
	w.backlogIs(t, 0, 0)
	require.Equal(t, 1, w.deadLetters(t))
	require.Equal(t, once(3), price.Deliveries())
}

func TestAFunctionThatCrashesAtAnEventGetsItAgain(t *testing.T) {
	t.Parallel()
	var price *loopback.Sink
	var crashed atomic.Bool
	price = loopback.StartSink(t, func(http.ResponseWriter, *http.Request) {
		if crashed.CompareAndSwap(false, true) {
			price.Stop()
		}
	})
	w := newFixture(t, loopback.Ready(price.Address()))
	w.start(t).publishMany(t, 0, 1)
	price.Await(t, 1)
	require.Eventually(t, crashed.Load, timeout, tick)
	price.Restart(t)
	price.Await(t, 2)
	w.backlogIs(t, 0, 0)
	require.Zero(t, w.deadLetters(t))
}

func TestAHandlerSlowerThanAckWaitGetsItsEventOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	price := loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(w.ackWait * 5 / 2):
		case <-r.Context().Done():
		}
	})
	w.endpoints.Set(loopback.Ready(price.Address()))
	w.start(t).publishMany(t, 0, 1)
	w.start(t) // would get what is redelivered
	price.Await(t, 1)
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(1), price.Deliveries())
}

func TestReplicasShareOneSubscription(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(price.Address()))
	first, second := w.start(t), w.start(t)
	first.publishMany(t, 0, 50)
	second.publishMany(t, 50, 50)
	price.Await(t, 100)
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(100), price.Deliveries())
}

func TestADrainLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	price := loopback.StartSink(t, func(http.ResponseWriter, *http.Request) { <-release })
	w := newFixture(t, loopback.Ready(price.Address()))
	fetchingEnded := make(chan struct{})
	first := w.start(t, func(deps *Deps, _ *Options) {
		deps.Routes = watchFunc(func(ctx context.Context, apply func([]routing.Route)) error {
			defer close(fetchingEnded)
			return w.routes.Watch(ctx, apply)
		})
	})
	first.publishMany(t, 0, 60)
	price.Await(t, orders(sinkURL).MaxInFlight)
	stopped := make(chan error, 1)
	go func() { stopped <- first.stop() }()
	<-fetchingEnded
	close(release)
	require.NoError(t, <-stopped)
	require.Len(t, price.Requests(), orders(sinkURL).MaxInFlight, "the drain delivered more than what was in flight")

	w.start(t)
	price.Await(t, 60)
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(60), price.Deliveries())
}

func TestReadinessFailsBeforeEventsAreRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t, func(_ *Deps, options *Options) { options.ShutdownDelay = 700 * time.Millisecond })
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/started": 200, "/nowhere": 404} {
		status, _ := get(t, r.url+path)
		require.Equal(t, want, status, path)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	require.Eventually(t, func() bool {
		status, _ := get(t, r.metricsURL+"/readyz")
		return status == http.StatusInternalServerError
	}, timeout, tick)
	status, _ := get(t, r.url+"/started")
	require.Equal(t, http.StatusInternalServerError, status)
	status, _ = r.publish(t, "1")
	require.Equal(t, http.StatusNoContent, status)
	require.NoError(t, <-stopped)
	w.backlogIs(t, 1, 0)
}

func TestAReplicaThatLeavesEndsItsConnections(t *testing.T) {
	t.Parallel()
	bridge := &Bridge{}
	handler := bridge.leaving(http.NotFoundHandler())
	answer := func() http.Header {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/publish", http.NoBody))
		return recorder.Header()
	}
	require.Empty(t, answer().Get("Connection"))
	bridge.stopping.Store(true)
	require.Equal(t, "close", answer().Get("Connection"), "the publisher's next request goes to another replica")
}

func TestAReplicaHasStartedWhenItHasReachedNATSOnce(t *testing.T) {
	t.Parallel()
	store := &switchedStore{}
	bridge := &Bridge{deps: Deps{Store: store}}
	started := func() int {
		recorder := httptest.NewRecorder()
		bridge.started(recorder, nil)
		return recorder.Code
	}
	require.Equal(t, http.StatusInternalServerError, started())
	store.connected = true
	require.Equal(t, http.StatusOK, started())
	store.connected = false
	require.Equal(t, http.StatusOK, started(), "without NATS publishers get that answer from a replica that stays")
	bridge.stopping.Store(true)
	require.Equal(t, http.StatusInternalServerError, started())
}

type switchedStore struct {
	Store
	connected bool
}

func (s *switchedStore) Connected() bool { return s.connected }

func TestAnOutageOfNATSNeedsNoRestart(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(price.Address()))
	r := w.start(t)
	r.publishMany(t, 0, 3)
	price.Await(t, 3)
	w.backlogIs(t, 0, 0)

	w.nats.Stop()
	require.Eventually(t, func() bool {
		status, _ := get(t, r.url+"/readyz")
		return status == http.StatusInternalServerError
	}, timeout, tick)
	status, retryAfter := r.publish(t, "refused")
	require.Equal(t, http.StatusBadGateway, status)
	require.Equal(t, "1", retryAfter)
	status, _ = get(t, r.url+"/healthz")
	require.Equal(t, http.StatusOK, status)

	w.nats.Run()
	require.Eventually(t, func() bool {
		status, _ := r.publish(t, "3")
		return status == http.StatusNoContent
	}, timeout, 50*time.Millisecond)
	price.Await(t, 4)
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(4), price.Deliveries())
}

func TestAnOutageOfNATSDuringADeliveryRepeatsNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	price := loopback.StartSink(t, func(http.ResponseWriter, *http.Request) { <-release })
	w := newFixture(t, loopback.Ready(price.Address()))
	w.ackWait = time.Minute // so that a second delivery could only come of a lost ack
	ensureConsumer(t, w.conn, orders(sinkURL), w.ackWait)
	r := w.start(t)
	r.publishMany(t, 0, 5)
	price.Await(t, 5)
	w.nats.Stop()
	require.Eventually(t, func() bool { // an ack that is sent before the outage is noticed may be lost
		status, _ := get(t, r.url+"/readyz")
		return status == http.StatusInternalServerError
	}, timeout, tick)
	close(release)
	w.nats.Run()
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(5), price.Deliveries())
}

func TestSubscriptionsComeChangeAndGo(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(price.Address()))
	require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DefaultStream, orders(sinkURL).Consumer))
	r := w.start(t)
	ensureConsumer(t, w.conn, orders(sinkURL), w.ackWait) // the controller comes later than the bridge
	r.publishMany(t, 0, 1)
	require.Equal(t, "/in", price.Await(t, 1)[0].URI)

	moved := orders(sinkURL + "/moved")
	w.routes.set(moved)
	require.Eventually(t, func() bool {
		n := len(price.Requests())
		r.publishMany(t, n, 1)
		return price.Await(t, n+1)[n].URI == "/in/moved"
	}, timeout, 20*time.Millisecond)
	w.backlogIs(t, 0, 0)

	w.routes.set()
	require.Eventually(t, func() bool {
		_, metrics := get(t, r.metricsURL)
		return !strings.Contains(metrics, `subscription="orders"`)
	}, timeout, tick, "the series of a Subscription that is gone stay")
	delivered := len(price.Requests())
	r.publishMany(t, 1000, 2)
	w.backlogIs(t, 2, 0)
	require.Len(t, price.Requests(), delivered)

	w.routes.set(moved)
	price.Await(t, delivered+2)
	w.backlogIs(t, 0, 0)
}

func TestEveryPublishedEventIsAckedDeadLetteredOrPending(t *testing.T) {
	t.Parallel()
	const published = 300
	var mu sync.Mutex
	acked, calls := map[string]bool{}, map[string]int{}
	w := newFixture(t)
	handler := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Ce-Id")
		calls[id]++
		switch {
		case strings.HasSuffix(id, "3") && calls[id] == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasSuffix(id, "6"):
			w.WriteHeader(http.StatusUnprocessableEntity)
		case strings.HasSuffix(id, "9"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasSuffix(id, "1") && calls[id] == 1:
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			acked[id] = true
		}
	}
	one, two := loopback.StartSink(t, handler), loopback.StartSink(t, handler)
	w.endpoints.Set(loopback.Ready(one.Address()), loopback.Ready(two.Address()))
	first, second := w.start(t), w.start(t)
	first.publishMany(t, 0, published/2)
	two.Stop()
	w.endpoints.Set(loopback.Ready(one.Address()))
	require.NoError(t, first.stop())
	second.publishMany(t, published/2, published/2)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acked)+w.deadLetters(t) >= published
	}, timeout, tick)
	w.backlogIs(t, 0, 0)
	require.Equal(t, published/10*2, w.deadLetters(t))
	require.Len(t, acked, published-published/10*2)
}

func TestABridgeReportsAnAddressItCannotListenOn(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	taken := listen(t)
	t.Cleanup(func() { _ = taken.Close() })
	for name, change := range map[string]func(*Options){
		"ingress": func(o *Options) { o.Listen = taken.Addr().String() },
		"metrics": func(o *Options) { o.MetricsAddress = taken.Addr().String() },
	} {
		options := DefaultOptions()
		options.Listen, options.MetricsAddress, options.ShutdownDelay = "127.0.0.1:0", "127.0.0.1:0", 0
		change(&options)
		err := New(Deps{
			Routes: w.routes, Endpoints: w.endpoints, Store: w.store, Registry: prometheus.NewRegistry(), Log: logr.Discard(),
		}, options).Run(t.Context())
		require.ErrorContains(t, err, name+": listen on "+taken.Addr().String())
	}
}

func TestRoutesThatCannotBeWatchedAreTriedAgain(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(price.Address()))
	var failed atomic.Bool
	r := w.start(t, func(deps *Deps, _ *Options) {
		deps.Routes = watchFunc(func(ctx context.Context, apply func([]routing.Route)) error {
			if failed.CompareAndSwap(false, true) {
				return errors.New("no API server")
			}
			return w.routes.Watch(ctx, apply)
		})
	})
	r.publishMany(t, 0, 1)
	price.Await(t, 1)
}

type watchFunc func(context.Context, func([]routing.Route)) error

func (f watchFunc) Watch(ctx context.Context, apply func([]routing.Route)) error {
	return f(ctx, apply)
}

func TestDefaultOptionsAreValid(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	require.NoError(t, flags.Validate(&options))
	options.ShutdownDelay, options.Sink.Timeout, options.Ingress.MaxRequestSize = -1, 0, 0
	err := flags.Validate(&options)
	for _, flag := range []string{"--shutdown-delay", "--sink-timeout", "--max-request-size"} {
		require.ErrorContains(t, err, flag)
	}
}

func TestMetricsShowNoSecretOfTheStore(t *testing.T) {
	t.Parallel()
	for urls, want := range map[string]string{
		"nats://nats:4222":                           "nats://nats:4222",
		"nats://me:secret@a:4222, nats://token@b:42": "nats://a:4222,nats://b:42",
		"nats://me:%zz@a:4222":                       "",
	} {
		require.Equal(t, want, withoutSecrets(urls))
	}
}

// refusing answers according to the event's id.
func refusing(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Ce-Id") {
	case "refused":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case "failing":
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func TestStreamsThatVanishUnderARunningBridgeAreUsedWhenTheyAreBack(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, refusing)
	w := newFixture(t, loopback.Ready(price.Address()))
	r := w.start(t)
	r.publishMany(t, 0, 3)
	price.Await(t, 3)
	w.backlogIs(t, 0, 0)
	for round := range 2 {
		for _, stream := range []string{broker.DefaultStream, broker.RetryStream, broker.DeadLetterStream} {
			w.nats.DeleteStream(t, stream)
		}
		status, _ := r.publish(t, "nowhere")
		require.Equal(t, http.StatusGatewayTimeout, status)

		ensureStream(t, w.conn) // as the controller does
		ensureConsumer(t, w.conn, orders(sinkURL), w.ackWait)
		for _, id := range []string{"refused", "failing", "fine"} {
			status, _ := r.publish(t, id)
			require.Equal(t, http.StatusNoContent, status)
		}
		price.Await(t, 3+(round+1)*(2+4)) // the failing one has four attempts
		require.Eventually(t, func() bool { return w.deadLetters(t) == 2 }, timeout, tick)
		w.backlogIs(t, 0, 0)
	}
	require.Equal(t, map[string]int{"0": 1, "1": 1, "2": 1, "refused": 2, "failing": 8, "fine": 2}, price.Deliveries())
}

func TestNothingEndsWhileNeitherRetriesNorDeadLettersCanBeStored(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *fixture){
		"for their streams are missing": func(t *testing.T, w *fixture) {
			t.Helper()
			w.nats.DeleteStream(t, broker.RetryStream)
			w.nats.DeleteStream(t, broker.DeadLetterStream)
		},
		"for the stream of retries is full": func(t *testing.T, w *fixture) {
			t.Helper()
			options := broker.DefaultStreamOptions()
			options.RetryMaxBytes = 1
			require.NoError(t, w.conn.EnsureStreams(t.Context(), options))
			w.nats.DeleteStream(t, broker.DeadLetterStream)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			price := loopback.StartSink(t, refusing)
			w := newFixture(t, loopback.Ready(price.Address()))
			spoil(t, w)
			r := w.start(t)
			for _, id := range []string{"refused", "failing", "fine"} {
				status, _ := r.publish(t, id)
				require.Equal(t, http.StatusNoContent, status)
			}
			require.Eventually(t, func() bool {
				calls := price.Deliveries()
				return calls["refused"] > 2 && calls["failing"] > 5 // more than its attempts: none of them counts
			}, timeout, tick)
			w.backlogIs(t, 0, 2)

			ensureStream(t, w.conn)
			require.Eventually(t, func() bool { return w.deadLetters(t) == 2 }, timeout, tick)
			w.backlogIs(t, 0, 0)
			require.Equal(t, 1, price.Deliveries()["fine"])
			require.Eventually(t, func() bool {
				waiting, err := w.conn.WaitingRetries(t.Context())
				return err == nil && len(waiting) == 0
			}, timeout, 10*time.Millisecond)
		})
	}
}
