package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

const rollbackTo = "rouse.run/rollback-to"

// serveRollbacks plays the controller: it serves the version of the annotation, and bbbbbbbbbb without one.
func (c *testCluster) serveRollbacks(t *testing.T) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			fn := c.peek(functionKind, "pricing")
			if fn != nil {
				version, reason := "bbbbbbbbbb", "FunctionSpecValidated"
				if to := fn.GetAnnotations()[rollbackTo]; to != "" {
					version, reason = to, "RolledBack"
				}
				status := statusOf(fn,
					map[string]any{"type": "ConfigurationReady", "status": "True", "reason": reason, "message": "m"},
					map[string]any{"type": "Running", "status": "True", "reason": "DeploymentReady", "message": "m"})
				status["version"] = version
				_ = c.setStatus(t.Context(), fn, status) // again at the next tick
			}
			select {
			case <-stop:
				return
			case <-time.After(tick):
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
}

func TestRollbackServesAnEarlierVersionAndTheNewestAgain(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, pricingYAML)
	c.revision(t, "1", "aaaaaaaaaa")
	c.revision(t, "2", "bbbbbbbbbb")
	c.serves(t, "bbbbbbbbbb")
	c.serveRollbacks(t)

	got := c.run(t, "rollback", "pricing")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, "function/pricing serves version aaaaaaaaaa\n", got.out)
	require.Equal(t, "aaaaaaaaaa", c.get(t, pricingYAML, "pricing").GetAnnotations()[rollbackTo])
	require.Regexp(t, `(?m)^aaaaaaaaaa +\d+s +0 +runs, by a rollback to aaaaaaaaaa$`, c.run(t, "rollback", "pricing", "--list").out)

	got = c.run(t, "rollback", "pricing")
	require.Equal(t, exit.Usage, exit.Code(got.code))
	require.Contains(t, got.err, "a rollback to aaaaaaaaaa is in force: name a version with --to (bbbbbbbbbb, aaaaaaaaaa), or return with --forward")
	require.Equal(t, "function/pricing serves version bbbbbbbbbb\n", c.run(t, "rollback", "pricing", "--forward").out)
	require.Empty(t, c.get(t, pricingYAML, "pricing").GetAnnotations()[rollbackTo])
	require.Equal(t, "function/pricing serves version aaaaaaaaaa\n", c.run(t, "rollback", "pricing", "--to", "aaaaaaaaaa").out)
}

func TestARollbackToAVersionThatDoesNotExistChangesNothing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, pricingYAML)
	c.revision(t, "1", "aaaaaaaaaa")
	c.serves(t, "aaaaaaaaaa")
	for line, want := range map[string]string{
		"rollback pricing":          "there is no earlier version",
		"rollback pricing --to nix": "there is no earlier version",
	} {
		got := c.run(t, strings.Fields(line)...)
		require.Equal(t, exit.NotFound, exit.Code(got.code), line)
		require.Contains(t, got.err, want, line)
	}
	require.Empty(t, c.get(t, pricingYAML, "pricing").GetAnnotations())
	require.Equal(t, exit.NotFound, exit.Code(c.run(t, "rollback", "nope").code))
	require.Equal(t, exit.Usage, exit.Code(c.run(t, "rollback", "pricing", "--to", "x", "--forward").code))
}
