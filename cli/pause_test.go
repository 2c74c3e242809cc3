package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/cli/exit"
)

func TestPauseKeepsEventsUntilResume(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, pricingYAML)
	c.apply(t, c.subscriptionYAML())
	c.apply(t, strings.Replace(c.subscriptionYAML(), "name: orders", "name: returns", 1))
	c.apply(t, strings.NewReplacer("name: orders", "name: elsewhere", "//pricing.", "//other.").Replace(c.subscriptionYAML()))
	paused := func(name string) bool {
		value, _, err := unstructured.NestedBool(c.get(t, c.subscriptionYAML(), name).Object, "spec", "paused")
		require.NoError(t, err)
		return value
	}
	for _, step := range []struct {
		line, out              string
		orders, returns, other bool
	}{
		{"pause subscription orders", "subscription/orders paused\n", true, false, false},
		{"pause subs/orders", "subscription/orders paused already\n", true, false, false},
		{"pause function pricing", "subscription/orders paused already\nsubscription/returns paused\n", true, true, false},
		{"resume function/pricing", "subscription/orders resumed\nsubscription/returns resumed\n", false, false, false},
		{"resume subscription elsewhere", "subscription/elsewhere resumed already\n", false, false, false},
	} {
		got := c.run(t, strings.Fields(step.line)...)
		require.Equal(t, 0, got.code, got.err)
		require.Equal(t, step.out, got.out, step.line)
		require.Equal(t, []bool{step.orders, step.returns, step.other}, []bool{paused("orders"), paused("returns"), paused("elsewhere")}, step.line)
	}
	for line, want := range map[string]exit.Code{
		"pause subscription nope": exit.NotFound, "pause function nope": exit.NotFound, "pause orders": exit.Usage, "resume": exit.Usage,
	} {
		require.Equal(t, want, exit.Code(c.run(t, strings.Fields(line)...).code), line)
	}
	got := c.run(t, "pause", "subscription", "orders", "--context", "limited")
	require.Equal(t, exit.Unreachable, exit.Code(got.code))
	require.Contains(t, got.err, "you may not list subscriptions")
}

func TestADeployLeavesAPausedSubscriptionPaused(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	folder := writeFolder(t, map[string]string{"orders.yaml": c.subscriptionYAML()})
	require.Equal(t, 0, c.run(t, "deploy", folder, "--wait=false").code)
	require.Equal(t, 0, c.run(t, "pause", "subscription", "orders").code)
	require.Equal(t, 0, c.run(t, "deploy", folder, "--wait=false").code)
	require.Equal(t, "subscription/orders resumed\n", c.run(t, "resume", "subscription", "orders").out)
}
