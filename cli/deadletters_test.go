package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/failure"
)

// refusing returns a fixture with n events, "0" and so on, as dead letters.
func refusing(t *testing.T, n int) (w *fixture, repaired *atomic.Bool) {
	t.Helper()
	repaired = &atomic.Bool{}
	w = newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		if !repaired.Load() {
			http.Error(w, "no such order", http.StatusBadRequest)
		}
	})
	for i := range n {
		got := w.run(t, "publish", "--type", "order.received", "--source", "shop", "--id", string(rune('0'+i)), "-d", `{"n": 1.50}`)
		require.Equal(t, 0, got.code, got.err)
		w.awaitDeadLetters(t, i+1)
	}
	return w, repaired
}

func (w *fixture) awaitDeadLetters(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		count, err := w.conn.DeadLetters(t.Context(), types.NamespacedName{Namespace: "orders", Name: "pricing"})
		return err == nil && int(count) == n
	}, testTimeout, tick)
}

func TestDeadLettersAreListedAndShown(t *testing.T) {
	t.Parallel()
	w, _ := refusing(t, 2)
	got := w.run(t, "dlq", "list")
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `^SEQUENCE +AGE +SUBSCRIPTION +TYPE +ID +ATTEMPTS +STATUS +REASON +ANSWER\n`+
		`1 +\d+s +orders/pricing +order.received +0 +1 +400 +SinkRejected +no such order\n`+
		`2 +\d+s +orders/pricing +order.received +1 +1 +400 +SinkRejected +no such order\n$`, got.out)

	require.Equal(t, "1\n2\n", w.run(t, "dlq", "list", "-o", "name").out)
	limited := w.run(t, "dlq", "list", "-o", "name", "--limit", "1")
	require.Equal(t, "1\n", limited.out)
	require.Contains(t, limited.err, "there are more")
	require.Empty(t, w.run(t, "dlq", "list", "-o", "name", "--limit", "2").err)
	require.Equal(t, "[]\n", w.run(t, "dlq", "list", "--subscription", "orders/invoicing", "-o", "json").out)
	require.Contains(t, w.run(t, "dlq", "list", "-n", "shop").err, "there are no dead letters")

	shown := w.run(t, "dlq", "show", "2")
	require.Equal(t, 0, shown.code, shown.err)
	require.Regexp(t, `(?m)^reason +SinkRejected\n +sink refused the event$`, shown.out)
	require.Regexp(t, `(?m)^answer +no such order$`, shown.out)
	require.Regexp(t, `(?m)^event +order.received 1 of shop$`, shown.out)
	require.Contains(t, shown.out, `"n": 1.50`)
	require.Contains(t, shown.out, `"type": "order.received"`)
	require.NotContains(t, shown.out, "kyma.shop", "the type in the store is nobody's")
	require.Contains(t, w.run(t, "dlq", "show", "2", "-o", "yaml").out, "sequence: 2\n")

	missing := w.run(t, "dlq", "show", "99")
	require.Equal(t, ran{3, "", "rouse: there is no dead letter 99\n"}, missing)
}

func TestDeadLettersAreRedrivenAndPurged(t *testing.T) {
	t.Parallel()
	w, repaired := refusing(t, 4)
	repaired.Store(true)
	here := "the local mode of " + w.directory + ": "
	orders := "Subscription orders/pricing of " + here
	require.Equal(t, ran{0, here + "redriven 1, failed 0, remaining 3\n", ""}, w.run(t, "dlq", "redrive", "2"))
	w.awaitDeadLetters(t, 3)
	require.Equal(t, ran{0, here + "purged 1\n", ""}, w.run(t, "dlq", "purge", "1"))
	require.Equal(t, ran{3, here + "redriven 0, failed 0, remaining 2\n", "rouse: there is no dead letter 1\n"}, w.run(t, "dlq", "redrive", "1", "3"))
	none := w.run(t, "dlq", "redrive", "--subscription", "pricing", "-n", "orders", "--reason", "AttemptsExhausted")
	require.Equal(t, ran{0, orders + "redriven 0, failed 0, remaining 2\n", "no dead letter has the reason AttemptsExhausted; there are SinkRejected (2)\n"}, none)
	require.Equal(t, ran{0, here + "redriven 2, failed 0, remaining 0\n", ""}, w.run(t, "dlq", "redrive", "--all", "--yes"))
	w.awaitDeadLetters(t, 0)
	require.Equal(t, 2, w.pricing.Deliveries()["1"], "the redriven event did not come back once")
	require.Equal(t, ran{0, "failed: 0\npurged: 0\nredriven: 0\nremaining: 0\n", ""}, w.run(t, "dlq", "purge", "--all", "-y", "-o", "yaml"))
}

func TestRedriveAndPurgeNeedASelection(t *testing.T) {
	t.Parallel()
	w, _ := refusing(t, 1)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"nothing":              {nil, "nothing is selected: name sequences, --subscription, or --all"},
		"all without a yes":    {[]string{"--all"}, "--all would purge all dead letters of the local mode of"},
		"a malformed sequence": {[]string{"first"}, `"first" is not a sequence number`},
		"a sequence and all":   {[]string{"1", "--all"}, "sequences go with neither --all"},
		"only a reason":        {[]string{"--reason", "SinkRejected"}, "nothing is selected"},
		"a reason unknown":     {[]string{"--all", "--reason", "sink refused the event"}, "use one of SinkRejected, AttemptsExhausted, "},
		"only a Subscription":  {[]string{"--subscription", "pricing"}, "name its namespace too, with -n or as NAMESPACE/pricing"},
		"two places":           {[]string{"--all", "-A", "-n", "orders"}, "--all-namespaces and --namespace contradict"},
	} {
		got := w.run(t, append([]string{"dlq", "purge"}, tc.args...)...)
		require.Equal(t, 2, got.code, "%s: %s", name, got.err)
		require.Contains(t, got.err, tc.want, name)
	}
	w.awaitDeadLetters(t, 1)
}

func TestUnmatchedReasonListsTheReasonsOfDeadLetters(t *testing.T) {
	t.Parallel()
	w, _ := refusing(t, 2)
	here := "the local mode of " + w.directory + ": "
	require.Equal(t, ran{0, "", "no dead letter has the reason NotSendable; there are SinkRejected (2)\n"},
		w.run(t, "dlq", "list", "--reason", "NotSendable"))
	require.Equal(t, ran{0, "[]\n", "no dead letter has the reason NotSendable; there are SinkRejected (2)\n"},
		w.run(t, "dlq", "list", "--reason", "NotSendable", "-o", "json"))
	require.Equal(t, ran{0, "", "there are no dead letters\n"},
		w.run(t, "dlq", "list", "--subscription", "orders/invoicing", "--reason", "NotSendable"))
	require.Equal(t, ran{0, here + "purged 0\n", "no dead letter has the reason NotSendable; there are SinkRejected (2)\n"},
		w.run(t, "dlq", "purge", "--all", "--yes", "--reason", "NotSendable"))
	unknown := w.run(t, "dlq", "list", "--reason", "attempts exhausted")
	require.Equal(t, 2, unknown.code)
	require.Contains(t, unknown.err, "use one of SinkRejected, AttemptsExhausted, NotACloudEvent, NotSendable, TooManyReplies, TooManyCaused, Expired, QuotaExceeded, Unknown")
}

func TestRedriveToAMissingSubscriptionEndsWithNotFound(t *testing.T) {
	t.Parallel()
	w, _ := refusing(t, 1)
	unknown := w.run(t, "dlq", "redrive", "--subscription", "orders/unknown")
	require.Equal(t, 3, unknown.code, unknown.err)
	require.Contains(t, unknown.err, "Subscription orders/unknown: ")
	require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DefaultStream, pricingRoute().Consumer))
	here := "the local mode of " + w.directory + ": "
	for among, args := range map[string][]string{"Subscription orders/pricing of " + here: {"--subscription", "orders/pricing"}, here: {"1"}} {
		gone := w.run(t, append([]string{"dlq", "redrive"}, args...)...)
		require.Equal(t, 3, gone.code, gone.err)
		require.Contains(t, gone.err, "create the Subscription or wait until it is active; its dead letters are kept")
		require.Equal(t, among+"redriven 0, failed 1, remaining 1\n", gone.out)
	}
	w.awaitDeadLetters(t, 1)
}

// The reasons in help and docs have to exist.
func TestEveryReasonInHelpAndDocsIsOne(t *testing.T) {
	t.Parallel()
	help, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	texts := map[string]string{}
	for _, page := range append(help, "../README.md") {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		texts[page] = string(content)
	}
	for _, verb := range []string{"list", "show", "redrive", "purge"} {
		texts["help of "+verb] = run(t, "", "dlq", verb, "--help").out
	}
	example := regexp.MustCompile(`dlq [^\n]*--reason[ =]('[^']*'|\S+)`)
	found := 0
	for where, text := range texts {
		for _, match := range example.FindAllStringSubmatch(text, -1) {
			_, err := failure.ParseDeadLetter(match[1])
			require.NoError(t, err, where)
			found++
		}
	}
	require.GreaterOrEqual(t, found, 4, "list, redrive and purge have an example each, and the docs one")
}
