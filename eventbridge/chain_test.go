package eventbridge

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// twin is a second Subscription to the same events.
func (w *fixture) twin(t *testing.T) routing.Route {
	t.Helper()
	twin := orders(sinkURL)
	twin.Subscription.Name = "twin"
	twin.Consumer = routing.ConsumerName(twin.Subscription.Namespace, twin.Subscription.Name)
	twin.UID = types.UID("twin")
	for i, subject := range twin.Subjects {
		if routing.IsRedelivery(subject) {
			twin.Subjects[i] = routing.RedeliverySubject(twin.Consumer)
		}
	}
	ensureConsumer(t, w.conn, twin, w.ackWait)
	w.routes.set(orders(sinkURL), twin)
	return twin
}

// withKey has replicas take each other's passes, for chains of so many events.
func withKey(most int) func(*Deps, *Options) {
	return func(deps *Deps, options *Options) {
		deps.ChainKey, options.Dispatch.MaxCaused = chain.NewKey([]byte("secret")), most
	}
}

// drained waits until nothing of a Subscription is left to deliver.
func (w *fixture) drained(t *testing.T, routes ...routing.Route) {
	t.Helper()
	for _, route := range routes {
		require.Eventually(t, func() bool {
			backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, route.Consumer)
			return err == nil && backlog == broker.Backlog{}
		}, 4*timeout, tick)
	}
}

func answerAs(w http.ResponseWriter, id string) {
	for name, value := range map[string]string{"Ce-Specversion": "1.0", "Ce-Id": id, "Ce-Source": "shop", "Ce-Type": "order.received.v1"} {
		w.Header().Set(name, value)
	}
}

func TestSubscriptionsThatReplyToEachOtherEndWhenTheirChainIsTooLarge(t *testing.T) {
	t.Parallel()
	const most = 100
	var ids atomic.Int64
	sink := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) { answerAs(w, "reply-"+strconv.FormatInt(ids.Add(1), 10)) })
	w := newFixture(t, loopback.Ready(sink.Address()))
	twin := w.twin(t)
	bridges := []*replica{w.start(t, withKey(most)), w.start(t, withKey(most))}
	status, _ := bridges[0].publish(t, "first")
	require.Equal(t, http.StatusNoContent, status)
	letters := func() (total int) {
		counts, err := w.conn.DeadLetterCounts(t.Context())
		if err != nil {
			return -1
		}
		for _, count := range counts {
			total += int(count)
		}
		return total
	}
	// Each event goes to two Subscriptions, and each delivery either causes an event or becomes a dead letter.
	require.Eventually(t, func() bool {
		deliveries, dead := len(sink.Requests()), letters()
		caused := deliveries - dead
		return caused > 0 && deliveries == 2*(1+caused)
	}, 4*timeout, tick)
	w.drained(t, orders(sinkURL), twin)
	deliveries, dead := len(sink.Requests()), letters()
	caused := deliveries - dead
	require.Equal(t, 2*(1+caused), deliveries, "published = acked + dead letters")
	require.GreaterOrEqual(t, caused, most)
	require.LessOrEqual(t, caused, 2*(most+2*orders(sinkURL).MaxInFlight), "the limit of each replica, and what was being stored")
	page, err := w.conn.ListDeadLetters(t.Context(), broker.DeadLetterQuery{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, failure.TooManyCaused, page.DeadLetters[0].Reason)
}

func TestAWideAndLongChainOfEmittedEventsAndRepliesPasses(t *testing.T) {
	t.Parallel()
	const wide, long = 100, 20
	var bridge atomic.Pointer[replica]
	sink := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		branch, step, _ := strings.Cut(r.Header.Get("Ce-Id"), "-")
		if step == "" {
			for i := range wide {
				if status, _ := emit(r, bridge.Load().url, strconv.Itoa(i)+"-1", ""); status != http.StatusNoContent {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}
			return
		}
		if n, _ := strconv.Atoi(step); n < long {
			answerAs(w, branch+"-"+strconv.Itoa(n+1))
		}
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	bridge.Store(w.start(t))
	status, _ := bridge.Load().publish(t, "first")
	require.Equal(t, http.StatusNoContent, status)
	handled := func() map[string]bool { // a busy machine may deliver an event twice
		ids := map[string]bool{}
		for _, r := range sink.Requests() {
			ids[r.ID()] = true
		}
		return ids
	}
	require.Eventually(t, func() bool { return len(handled()) == 1+wide*long }, 4*timeout, tick)
	w.drained(t, orders(sinkURL))
	require.Zero(t, w.deadLetters(t))
	require.Len(t, handled(), 1+wide*long)
}

// emit publishes as runtimes do while they handle a request.
func emit(handled *http.Request, url, id, cause string) (status int, problem string) {
	event := `{"specversion":"1.0","id":"` + id + `","source":"shop","type":"order.received.v1","rousehops":"31"`
	if cause != "" {
		event += `,"rousecause":"` + cause + `"`
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(handled.Context()), http.MethodPost, url+"/publish", strings.NewReader(event+"}"))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/cloudevents+json")
	for _, name := range []string{"Traceparent", "Tracestate"} {
		req.Header.Set(name, handled.Header.Get(name))
	}
	resp, err := loopback.Default.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	var text strings.Builder
	_ = resp.Write(&text)
	return resp.StatusCode, text.String()
}

func TestEventsEmittedByASinkJoinTheChainOfTheHandledEventAtEveryReplica(t *testing.T) {
	t.Parallel()
	var other atomic.Pointer[replica]
	type answer struct {
		status int
		text   string
	}
	answers := make(chan answer, 10)
	sink := loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") != "first" {
			return
		}
		for _, id := range []string{"second", "third"} {
			status, text := emit(r, other.Load().url, id, "first")
			answers <- answer{status, text}
		}
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	other.Store(w.start(t, withKey(1), func(deps *Deps, _ *Options) { deps.Routes = newFakeRoutes() }))
	status, _ := w.start(t, withKey(1)).publish(t, "first")
	require.Equal(t, http.StatusNoContent, status)
	require.Eventually(t, func() bool { return len(sink.Requests()) == 2 }, timeout, tick)
	emitted := sink.Requests()[1].Header
	require.Equal(t, []string{"second", "first", "1"}, []string{emitted.Get("Ce-Id"), emitted.Get("Ce-Rousecause"), emitted.Get("Ce-Rousehops")})
	require.Equal(t, http.StatusNoContent, (<-answers).status)
	refused := <-answers
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Contains(t, refused.text, "one event caused too many others: the first event of its chain has caused 1 in this namespace")
}

func TestAPublisherMakesNoEventOfAnothersChain(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	bridge := w.start(t)
	const said = `"rousehops":"99","rousecause":"victim","rousechain":"` + "00000000000000000000000000000000ffffffff" + `"`
	event := func(id string) string {
		return `{"specversion":"1.0","id":"` + id + `","source":"shop","type":"order.received.v1",` + said + `}`
	}
	status, text := bridge.publishAs(t, "", "/publish", "application/cloudevents+json", event("structured"))
	require.Equal(t, http.StatusNoContent, status, text)
	status, text = bridge.publishBatch(t, event("batch"))
	require.Equal(t, http.StatusNoContent, status, text)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, bridge.url+"/publish", strings.NewReader("{}"))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "binary", "Ce-Source": "shop", "Ce-Type": "order.received.v1", "Content-Type": "application/json",
		"Ce-Rousehops": "99", "Ce-Rousecause": "victim", "Ce-Rousechain": "x", "Tracestate": "rouse=" + strings.Repeat("A", 64),
	} {
		req.Header.Set(name, value)
	}
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	require.Eventually(t, func() bool { return len(sink.Requests()) == 3 }, timeout, tick)
	for _, request := range sink.Requests() {
		for _, name := range []string{"Ce-Rousehops", "Ce-Rousecause", "Ce-Rousechain"} {
			require.Empty(t, request.Header.Get(name), request.ID())
		}
	}
	w.backlogIs(t, 0, 0)
	require.Zero(t, w.deadLetters(t))
}

// hangingStore confirms nothing before it is let go.
type hangingStore struct {
	Store
	publishing atomic.Int32
	letGo      chan struct{}
}

func (s *hangingStore) Publish(context.Context, *cloudevent.Event) error {
	s.publishing.Add(1)
	<-s.letGo
	return nil
}

func TestRepliesOfANamespaceLeavePlacesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, places := &hangingStore{letGo: make(chan struct{})}, newReplyPlaces()
		var all sync.WaitGroup
		reply := func(namespace string) {
			to := replies{to: publisher{store: store}, places: places, namespace: namespace}
			all.Go(func() {
				assert.NoError(t, to.Publish(t.Context(), &cloudevent.Event{ID: "1", Source: "shop", Type: "order.received.v1"}))
			})
		}
		for range 2 * repliesAtATime {
			reply("red")
		}
		synctest.Wait()
		require.EqualValues(t, repliesAtATime/2, store.publishing.Load())
		reply("shop")
		synctest.Wait()
		require.EqualValues(t, repliesAtATime/2+1, store.publishing.Load(), "another namespace does not wait")
		close(store.letGo)
		all.Wait()
		require.EqualValues(t, 2*repliesAtATime+1, store.publishing.Load())
	})
}
