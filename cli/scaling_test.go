package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestAFunctionIsExplainedWithTheEventsThatWaitForIt(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	w := newFixture(t, func(http.ResponseWriter, *http.Request) { <-answer })
	defer close(answer)
	require.Equal(t, 0, w.run(t, "publish", "--type", "order.received", "--source", "shop", "--id", "slow").code)
	w.pricing.Await(t, 1)

	got := w.run(t, "functions", "pricing")
	require.Equal(t, 0, got.code, got.err)
	got.out = strings.ReplaceAll(got.out, w.pricing.Address(), "ADDRESS")
	require.Equal(t, strings.TrimLeft(`
function       orders/pricing
state          ready
runtime        nodejs22
url            http://ADDRESS
replicas       1, of which 1 ready; minReplicas 0, maxReplicas 5
why not 0      1 event is pending or in flight
why not more   rouse-backlog is 3 at 10 for each replica, enough for 1
cooldown       5s

NAMESPACE   NAME      STATE   SOURCE   TYPES            SINK                                      PENDING   IN FLIGHT   RETRIES   DEAD LETTERS   MESSAGE
orders      pricing   ready   shop     order.received   http://pricing.orders.svc.cluster.local   0         1           0         0
`, "\n"), got.out)

	var explained map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.run(t, "function", "orders/pricing", "-o", "json").out), &explained))
	require.Equal(t, "pricing", explained["name"])
	require.Len(t, explained["subscriptions"], 1)
	require.Equal(t, map[string]any{"question": "why not 0", "answer": "1 event is pending or in flight"}, explained["why"].([]any)[0])
	require.InDelta(t, 1, explained["scaling"].(map[string]any)["waiting"], 0)
}

func TestTheLastWakeOfAFunctionIsShownWithItsStages(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nil)
	course := `{"cause":"publish","began":"2026-05-01T12:04:10Z","sentMs":3,"addressedMs":278,"readyMs":912}`
	var got ran
	require.Eventually(t, func() bool { // until the bridge listens
		require.NoError(t, w.conn.AnnounceWoken(types.NamespacedName{Namespace: "orders", Name: "pricing"}, []byte(course)))
		got = w.run(t, "functions", "pricing")
		return strings.Contains(got.out, "last wake")
	}, testTimeout, tick)
	_, shown, _ := strings.Cut(got.out, "last wake")
	shown, _, _ = strings.Cut(shown, "\n\n")
	began := time.Date(2026, 5, 1, 12, 4, 10, 0, time.UTC).Local().Format(time.DateTime)
	require.Equal(t, strings.TrimRight(`         `+began+` by an event
  KEDA told            3 ms  #
  pod addressed      278 ms  ############
  pod ready          912 ms              ############################
`, "\n"), shown)

	var explained map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.run(t, "function", "orders/pricing", "-o", "json").out), &explained))
	require.InDelta(t, 912, explained["lastWake"].(map[string]any)["readyMs"], 0)
}

func TestAFunctionThatIsNotScaledIsExplainedWithItsError(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nil)
	got := w.run(t, "functions", "broken", "-n", "orders")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, strings.TrimLeft(`
function     orders/broken
state        failing
runtime      python312
last error   handler.py:3: no Traceback
`, "\n"), got.out)
	require.Equal(t, "orders/broken\n", w.run(t, "functions", "broken", "-o", "name").out)
}

func TestExplainingRefusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nil)
	got := w.run(t, "functions", "pricing", "-A")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, "--all-namespaces lists Functions: leave it out, or pricing")
	got = w.run(t, "functions", "pricing", "recorder")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, `unexpected argument "recorder"`)
	got = w.run(t, "functions", "princing")
	require.Equal(t, 3, got.code)
	require.Contains(t, got.err, "there is no Function princing; there are orders/broken, orders/pricing")
}
