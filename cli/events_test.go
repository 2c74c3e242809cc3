package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func (w *fixture) publish(t *testing.T, eventType string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		got := w.run(t, "publish", "--type", eventType, "--source", "shop", "--id", id)
		require.Equal(t, 0, got.code, got.err)
	}
}

// settled waits until the bridge has recorded that the event was delivered or became a dead letter.
func (w *fixture) settled(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		got := w.run(t, "events", "tail", "--since", "1h", "--id", id, "--kind", "delivered,deadlettered", "--limit", "1")
		require.Equal(t, 0, got.code, got.err)
	}
}

func TestEventsAreFollowedAsTheyHappen(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	l := w.live(t, "events", "tail", "--since", "1h")
	w.publish(t, "order.received", "1001")
	l.next(t, "TIME")
	stored, delivered := l.next(t, "1001"), l.next(t, "1001")
	if strings.Contains(stored, "delivered") { // on a busy machine this happens before NATS' confirmation is read
		stored, delivered = delivered, stored
	}
	require.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3} +stored +order\.received +1001 +- +from shop`, stored)
	require.Regexp(t, `delivered +order\.received +1001 +orders/pricing +200, in `, delivered)
	require.Equal(t, ran{}, l.stop())
}

func TestPastEventsAreFilteredByTheirAttributes(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") == "bad" {
			http.Error(w, "no", http.StatusBadRequest)
		}
	})
	w.publish(t, "order.received", "good", "bad")
	w.publish(t, "other", "nobodys")
	w.settled(t, "good", "bad")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"of a type":           {[]string{"--type", "order.*", "--kind", "stored"}, "good bad"},
		"of a Subscription":   {[]string{"--subscription", "pricing", "--kind", "delivered"}, "good"},
		"to a Function":       {[]string{"--function", "pricing", "--kind", "delivered,deadlettered"}, "good bad"},
		"to another Function": {[]string{"--function", "shop/pricing"}, ""},
		"by its id":           {[]string{"--id", "nobodys"}, "nobodys"},
		"of a namespace":      {[]string{"-n", "elsewhere"}, "good bad nobodys"}, // stored, which has no namespace
		"the last":            {[]string{"--kind", "stored", "--limit", "1"}, "nobodys"},
		"from another source": {[]string{"--source", "elsewhere"}, ""},
		"dead letters":        {[]string{"--kind", "deadlettered", "--since", "1h"}, "bad"},
	} {
		got := w.run(t, append([]string{"events", "tail", "--follow=false", "-o", "name"}, tc.args...)...)
		require.Equal(t, 0, got.code, "%s: %s", name, got.err)
		require.ElementsMatch(t, strings.Fields(tc.want), strings.Fields(got.out), name) // deliveries overtake each other
	}
	got := w.run(t, "events", "tail", "--follow=false", "--kind", "deadlettered", "-o", "json")
	require.Contains(t, got.out, `"kind":"deadlettered","id":"bad"`)
	require.Contains(t, w.run(t, "events", "tail", "--kind", "lost").err, "--kind lost: use some of stored, delivered, retry")
	require.Equal(t, 2, w.run(t, "events", "tail", "--limit", "-1").code)
}

func TestTraceShowsTheChainOnceItIsSettled(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	w := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Ce-Specversion", "1.0") // a reply that is an event
		w.Header().Set("Ce-Id", "p-"+r.Header.Get("Ce-Id"))
		w.Header().Set("Ce-Source", "pricing")
		w.Header().Set("Ce-Type", "order.priced")
	})
	w.publish(t, "order.received", "1001")
	got := w.run(t, "trace", "1001", "--wait", "1m")
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `(?s)^trace [0-9a-f]{32}, began .*order\.received  1001  from shop  ◂\n.*orders/pricing: delivered, 2 attempts.*`+
		`attempt 1, 503.*attempt 2, 200.*└─ order\.priced  p-1001  from pricing\n.*no delivery yet\n$`, got.out)

	got = w.run(t, "trace", "p-1001", "-o", "json")
	require.Equal(t, 0, got.code, got.err)
	var root map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &root))
	require.Equal(t, "1001", root["id"], "the chain does not begin at its beginning")
}

func TestTraceOfAnUnknownEventEndsWithNotFound(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	got := w.run(t, "trace", "never")
	require.Equal(t, 3, got.code)
	require.Contains(t, got.err, `event "never": no record of this event`)
}
