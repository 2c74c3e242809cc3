package chain

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func event(eventID string, extensions ...string) *cloudevent.Event {
	ev := &cloudevent.Event{ID: eventID, Source: "shop", Type: "order.received.v1"}
	ev.SetExtension("traceparent", parent)
	for i := 0; i < len(extensions); i += 2 {
		ev.SetExtension(extensions[i], extensions[i+1])
	}
	return ev
}

// shown is the header with which a sink publishes that an event was delivered to.
func shown(d Deliveries, stored time.Time, ev *cloudevent.Event) http.Header {
	d.Carry(stored, ev)
	return http.Header{"Tracestate": {ev.Extension(tracestate)}}
}

func TestChainExtensionsOfPublishersAreDropped(t *testing.T) {
	t.Parallel()
	c := New(Key{}, 10)
	foreign := shown(New(Key{}, 10).Of("shop"), time.Now(), event("1"))["Tracestate"][0]
	mine := shown(c.Of("shop"), time.Now(), event("1"))["Tracestate"][0]
	for name, state := range map[string]string{
		"nothing": "", "of another key": foreign, "cut off": mine[:20], "changed": "rouse=A" + mine[len("rouse=A"):] + "A",
		"another's hops": mine[:len(mine)-1] + string('A'+(mine[len(mine)-1]-'A'+4)%26), "no base64": "rouse=" + foreign[len("rouse=."):] + ".",
	} {
		header := http.Header{}
		if state != "" {
			header.Set("Tracestate", state)
		}
		require.Nil(t, c.Shown(header), name)
		ev := event("2", dispatch.ExtensionHops, "31", dispatch.ExtensionCause, "1", Extension, "00", tracestate, "a=b,"+foreign)
		require.NoError(t, c.Admit(nil, ev), name)
		require.Equal(t, event("2", tracestate, "a=b"), ev, name)
	}
}

func TestAPassContinuesTheChainOfWhatWasDelivered(t *testing.T) {
	t.Parallel()
	key := NewKey([]byte("secret"))
	one, other := New(key, 10), New(key, 10)
	stored := time.Unix(1, 2)
	delivered := event("1", dispatch.ExtensionHops, "4", tracestate, "a=b")
	header := shown(one.Of("shop"), stored, delivered)
	require.Regexp(t, `^rouse=[A-Za-z0-9_-]{64},a=b$`, header.Get("Tracestate"))
	pass := other.Shown(http.Header{"Tracestate": {"mine=1", header.Get("Tracestate")}})
	require.NotNil(t, pass, "another replica recognizes it, also after what others have added")

	emitted := event("2", dispatch.ExtensionCause, "1", dispatch.ExtensionHops, "0", tracestate, header.Get("Tracestate"))
	require.NoError(t, other.Admit(pass, emitted))
	require.Equal(t, []string{"5", "1", "a=b"}, []string{
		emitted.Extension(dispatch.ExtensionHops), emitted.Extension(dispatch.ExtensionCause), emitted.Extension(tracestate),
	})
	forged := event("3", dispatch.ExtensionCause, "another's")
	require.NoError(t, other.Admit(pass, forged))
	require.Empty(t, forged.Extension(dispatch.ExtensionCause), "no sink names a cause that was not delivered to it")
	require.Equal(t, emitted.Extension(Extension), forged.Extension(Extension))

	reply := event("4")
	require.True(t, one.Of("shop").Extend(stored, event("1"), reply))
	require.Equal(t, emitted.Extension(Extension), reply.Extension(Extension), "a reply is of the same chain")
	require.True(t, one.Of("shop").Extend(stored.Add(1), event("1"), reply))
	require.NotEqual(t, emitted.Extension(Extension), reply.Extension(Extension), "another event of the same id is not")
}

func TestAnEventWithoutATraceCarriesNoPass(t *testing.T) {
	t.Parallel()
	ev := &cloudevent.Event{ID: "1", Source: "shop", Type: "order.received.v1"}
	New(Key{}, 1).Of("shop").Carry(time.Now(), ev)
	require.Empty(t, ev.Extensions)
}

func TestAChainHasNoMoreEventsThanItsLimitInTheNameOfANamespace(t *testing.T) {
	t.Parallel()
	c := New(Key{}, 3)
	stored := time.Now()
	ours := c.Of("shop")
	for range 2 {
		require.True(t, ours.Extend(stored, event("1"), event("reply")))
		ours.Count(stored, event("1"))
	}
	pass := c.Shown(shown(ours, stored, event("1")))
	require.NoError(t, c.Admit(pass, event("emitted")))
	c.Count(pass, 1)
	err := c.Admit(pass, event("emitted"))
	require.ErrorIs(t, err, ErrExhausted)
	require.EqualError(t, err, "one event caused too many others: the first event of its chain has caused 3 in this namespace, as many as it may")
	require.False(t, ours.Extend(stored, event("1"), event("reply")))

	require.True(t, c.Of("red").Extend(stored, event("1"), event("reply")), "another namespace has its own share of the chain")
	require.True(t, ours.Extend(stored, event("2"), event("reply")), "another event its own chain")
}

func TestAChainGoesOnFromWhereItWasAtAnotherReplicaAndLater(t *testing.T) {
	t.Parallel()
	key := NewKey([]byte("secret"))
	stored := time.Now()
	last := event("0")
	caused := 0
	for ; caused < 10; caused++ { // a new replica for each
		deliveries := New(key, 5).Of("shop")
		reply := event("reply-" + strconv.Itoa(caused))
		if !deliveries.Extend(stored, last, reply) {
			break
		}
		deliveries.Count(stored, last)
		last = reply
	}
	require.Equal(t, 5, caused)
	require.True(t, New(key, 5).Of("red").Extend(stored, last, event("reply")), "what another namespace has caused does not count")
}

func TestChainsAreForgottenWithTheirNamespaceAndRememberedForAWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Key{}, 1)
		stored := time.Now()
		use := func(namespace string) bool {
			if !c.Of(namespace).Extend(stored, event("1"), event("reply")) {
				return false
			}
			c.Of(namespace).Count(stored, event("1"))
			return true
		}
		require.True(t, use("shop"))
		time.Sleep(window)
		require.False(t, use("shop"))
		time.Sleep(2 * window)
		require.True(t, use("red"))
		require.Len(t, c.caused.namespaces, 1)
		require.True(t, use("shop"))
	})
}

func TestManyChainsAtATimeAreNotTakenForLargeOnes(t *testing.T) {
	t.Parallel()
	const chains, length, limit = 20_000, 5, 1000
	c := New(Key{}, limit)
	ours := c.Of("shop")
	stored := time.Now()
	for range length {
		for i := range chains {
			cause := event(strconv.Itoa(i))
			require.True(t, ours.Extend(stored, cause, event("reply")))
			ours.Count(stored, cause)
		}
	}
}

func TestChainsThatGrowAtTheSameTimeDoNotPushEachOtherOut(t *testing.T) {
	t.Parallel()
	const chains, limit = 5000, 20
	c := New(Key{}, limit)
	ours := c.Of("red")
	stored := time.Now()
	caused := 0
	for range 2 * limit {
		for i := range chains { // each event claims that nothing was caused before it
			if cause := event(strconv.Itoa(i)); ours.Extend(stored, cause, event("reply")) {
				ours.Count(stored, cause)
				caused++
			}
		}
	}
	require.LessOrEqual(t, caused, chains*limit)
	require.Positive(t, caused)
}

func BenchmarkCarry(b *testing.B) {
	d := New(Key{}, 1).Of("shop")
	stored := time.Now()
	extensions := make([]cloudevent.Extension, 1, 4)
	for b.Loop() {
		ev := cloudevent.Event{ID: "1", Source: "shop", Type: "order.received.v1", Extensions: append(extensions[:0], cloudevent.Extension{Name: "traceparent", Value: parent})}
		d.Carry(stored, &ev)
	}
}
