package dev

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPausedSubscriptionLetsItsFunctionSleepUntilThePauseEnds(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "other.yaml", strings.ReplaceAll(greeter(prints("the other has")), "greeter", "other"))
	write(t, directory, "fn.yaml", greeter(prints("it has"))+"  paused: true\n")
	w := run(t, directory)
	await(t, "both consumers are there", func() bool { return w.consumers(t) == 2 })
	w.emit(t, "1", `{"id":"waited"}`)
	await(t, "the other was woken by it", func() bool { return strings.Contains(w.printed(t, "other"), "the other has waited") })
	await(t, "the other sleeps again", func() bool { return w.asleep(t, "other") })
	require.Zero(t, w.functions(t)["greeter"].Wakes)
	require.EqualValues(t, 1, w.backlog(t, "greeter"), "what waits is not shown")

	write(t, directory, "fn.yaml", greeter(prints("it has")))
	await(t, "what waited is delivered", func() bool { return strings.Contains(w.printed(t, "greeter"), "it has waited") })
	await(t, "nothing waits", func() bool { return w.backlog(t, "greeter") == 0 })
}

// backlog is what waits for a Subscription, according to the admin API.
func (w *fixture) backlog(t *testing.T, name string) uint64 {
	t.Helper()
	var all struct {
		Subscriptions []struct {
			Name    string
			Backlog uint64
		}
	}
	w.get(t, w.Admin+"/v1/subscriptions", &all)
	for _, sub := range all.Subscriptions {
		if sub.Name == name {
			return sub.Backlog
		}
	}
	require.Fail(t, "no such Subscription", name)
	return 0
}
