package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/target"
)

func TestListShowsURLsThatTheReaderCanCall(t *testing.T) {
	t.Parallel()
	const inside, outside = "http://price.shop.svc.cluster.local", "https://price.example.com/"
	for name, tc := range map[string]struct {
		exposed []string
		local   bool
		want    string
	}{
		"the port in local mode":                 {nil, true, inside},
		"no URL in a cluster":                    {nil, false, ""},
		"the APIRule's URL in a cluster":         {[]string{outside}, false, outside},
		"the first of several":                   {[]string{outside, "b", "c"}, false, outside + " (+2)"},
		"the APIRule's URL rather than the port": {[]string{outside}, true, outside},
	} {
		require.Equal(t, tc.want, reachableURL(&target.Function{URL: inside, Exposed: tc.exposed}, tc.local), name)
	}
}

func TestSubscriptionsAreListedWithTheirBacklogs(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	w := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") == "slow" {
			<-answer
		}
		http.Error(w, "no", http.StatusBadRequest)
	})
	defer close(answer)
	for _, id := range []string{"refused", "slow"} {
		require.Equal(t, 0, w.run(t, "publish", "--type", "order.received", "--source", "shop", "--id", id).code)
	}
	w.pricing.Await(t, 2)
	w.awaitDeadLetters(t, 1)

	got := w.run(t, "subscriptions")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, strings.TrimLeft(`
NAMESPACE   NAME      STATE     SOURCE      TYPES            SINK                                      PENDING   IN FLIGHT   RETRIES   DEAD LETTERS   MESSAGE
mail        thanks    failing   invoicing   order.invoiced   http://thanks                             0         0           0         0              no consumer
orders      pricing   ready     shop        order.received   http://pricing.orders.svc.cluster.local   0         1           0         1
`, "\n"), got.out)

	var listed []map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.run(t, "subscriptions", "-n", "orders", "-o", "json").out), &listed))
	require.Equal(t, []map[string]any{{
		"namespace": "orders", "name": "pricing", "source": "shop", "types": []any{"order.received"},
		"sink": "http://pricing.orders.svc.cluster.local", "state": "ready",
		"backlog": map[string]any{"pending": 0.0, "inFlight": 1.0, "waitingRetries": 0.0, "deadLetters": 1.0},
	}}, listed)
	require.Equal(t, "mail/thanks\norders/pricing\n", w.run(t, "subs", "-o", "name").out)
	require.Equal(t, "[]\n", w.run(t, "subscriptions", "-n", "nowhere", "-o", "json").out)
	require.Contains(t, w.run(t, "subscriptions", "-n", "nowhere").err, "there are no Subscriptions in nowhere")
}

func TestALongListOfTypesIsCutInTheTable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a, b, c", briefTypes([]string{"a", "b", "c"}))
	require.Equal(t, "a, b, c, and 2 more", briefTypes([]string{"a", "b", "c", "d", "e"}))
}
