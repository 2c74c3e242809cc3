package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// completed are the words that a shell is offered.
func completed(got ran) []string {
	words, _, _ := strings.Cut(got.out, ":4\n") // 4: no names of files
	return strings.Fields(words)
}

func TestAShellCompletesNamesOfWhatThereIs(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	for line, want := range map[string][]string{
		"logs ":                            {"broken", "pricing"},
		"logs pr":                          {"pricing"},
		"logs orders/":                     {"orders/broken", "orders/pricing"},
		"logs -n nowhere ":                 nil,
		"logs pricing ":                    nil,
		"invoke p":                         {"pricing"},
		"invoke pricing --event order.r":   {"order.received"},
		"functions -n ":                    {"mail", "orders"},
		"publish --type ":                  {"order.invoiced", "order.received"},
		"publish --source shop --type ":    {"order.received"},
		"publish --type order.r --source ": nil,
		"publish --type order.received --source ": {"shop"},
		"events tail --type order.i":              {"order.invoiced"},
		"events tail --source ":                   {"invoicing", "shop"},
		"events tail --subscription ":             {"pricing", "thanks"},
		"events tail --function orders/p":         {"orders/pricing"},
		"dlq list --subscription ":                {"mail/thanks", "orders/pricing"},
		"dlq redrive -n mail --subscription ":     {"thanks"},
		"dlq purge --subscription mail/":          {"mail/thanks"},
	} {
		args := strings.Split("__complete --dir "+w.directory+" "+line, " ")
		verb := args[3:]
		args = append(append([]string{"__complete"}, verb[:len(verb)-1]...), "--dir", w.directory, verb[len(verb)-1])
		if flag := verb[max(0, len(verb)-2)]; strings.HasPrefix(flag, "-") { // its value is what is completed
			args = append(append([]string{"__complete"}, verb[:len(verb)-2]...), "--dir", w.directory, flag, verb[len(verb)-1])
		}
		require.ElementsMatch(t, want, completed(run(t, "", args...)), line)
	}
}

func TestCompletionWithoutATargetIsEmptyAndSilent(t *testing.T) {
	t.Parallel()
	hanging := &fixture{directory: t.TempDir()}
	hanging.instance.Control = serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	hanging.announce(t)
	for _, args := range [][]string{
		{"--dir", "/does/not/exist"},
		{"--context", "nowhere"},
		{"--dir", hanging.directory},
	} {
		began := time.Now()
		got := run(t, "", append(append([]string{"__complete", "logs"}, args...), "")...)
		require.Empty(t, completed(got), args)
		require.NotContains(t, got.err, "rouse:", args)
		require.Less(t, time.Since(began), testTimeout/2, args)
	}
}

func TestCompletionLeavesOutShellMetacharacters(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "-n", "a b", "$(id)", "`id`", "a;b", "a\tb", "ä"} {
		require.False(t, harmless(word), word)
	}
	require.True(t, harmless("sap.kyma/order_1-v1"))
}
