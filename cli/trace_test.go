package cli

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTraceShowsTheChainOnceItIsAtRest(t *testing.T) {
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
	require.Contains(t, got.err, `event "never": nobody remembers this event`)
}
