//go:build e2e

package features

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// It changes what all Functions of the cluster have in common, so it does not run beside other tests.
func TestSettingsChangeWhileEverythingRuns(t *testing.T) { //nolint:paralleltest // as above
	cluster, namespace := connect(t)
	ctx := t.Context()
	publishes := framework.Function{
		Name: "published", Runtime: "nodejs22", Source: "module.exports.main = () => process.env.PUBLISHER_PROXY_ADDRESS",
	}
	require.NoError(t, cluster.ApplyYAML(ctx, namespace, publishes.YAML()))
	const eventType = "settings.changed.v1"
	sleeper(t, cluster, namespace, eventType, framework.Function{Name: "sleeper", Source: "module.exports.main = () => 'ok'"})
	const address = "http://rouse-eventbridge.rouse-system.svc.cluster.local/publish"
	require.NoError(t, cluster.AwaitAnswer(ctx, namespace, "published", address, time.Minute))

	// The log of four processes.
	change(t, cluster, framework.LogConfig, framework.LogConfigKey, func(string) string { return "logLevel: info\nlogFormat: json\n" },
		"controller", "eventbridge", "scaler", "gateway")

	// One Function alone is debugged. The bridge learns it by its Service.
	require.NoError(t, cluster.Annotate(ctx, namespace, "sleeper", map[string]string{
		"rouse.run/debug-until": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}))
	settled := `"level":"DEBUG","msg":"delivery settled","subscription":"` + namespace + `/sleeper"`
	require.NoError(t, framework.Await(ctx, time.Minute, "a debug line about the Function", func(ctx context.Context) (bool, error) {
		if err := publishAll(ctx, cluster, eventType, []string{rand.Text()}); err != nil {
			return false, err
		}
		return logged(ctx, cluster, "eventbridge", settled)
	}))

	// Where Functions publish, under load. The other address leads to the same place.
	load, err := cluster.StartLoad(ctx, namespace, "published")
	require.NoError(t, err)
	const other = "http://rouse-eventbridge.rouse-system.svc/publish"
	change(t, cluster, framework.FunctionConfig, framework.FunctionConfigKey, func(text string) string {
		return strings.ReplaceAll(text, address, other)
	}, "controller")
	require.NoError(t, framework.Await(ctx, time.Minute, "the load to meet pods with the other address", func(ctx context.Context) (bool, error) {
		report, err := load.Report(ctx)
		return report.Answers[other] > 100, err
	}))
	report, err := load.Stop(ctx)
	require.NoError(t, err)
	t.Logf("%d requests, answers %v", report.Asked, report.Answers)
	require.Zero(t, report.Failed, report.Failures)
	asleep := &appsv1.Deployment{}
	require.NoError(t, framework.Await(ctx, time.Minute, "the Function that sleeps to follow", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "sleeper"}, asleep)
		return strings.Contains(asleep.Spec.Template.String(), other), err
	}))

	// A bad file changes nothing and says so.
	good, _, err := cluster.ChangeSettings(ctx, framework.FunctionConfig, framework.FunctionConfigKey, func(string) string {
		return "functionPublisherProxyAdress: " + address
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _, err := cluster.ChangeSettings(context.WithoutCancel(ctx), framework.FunctionConfig, framework.FunctionConfigKey, func(string) string {
			return strings.ReplaceAll(good, other, address)
		})
		require.NoError(t, err)
	})
	require.NoError(t, cluster.AwaitSettingsEvent(ctx, framework.FunctionConfig, "SettingsRefused", "did you mean functionPublisherProxyAddress?"))
	answer, err := cluster.Answer(ctx, namespace, "published")
	require.NoError(t, err)
	require.Equal(t, other, answer)
}

// change changes a file of settings until the end of the test, and waits until all pods of the components follow. It says how
// soon that is: within two seconds where the machine is not busy.
func change(t *testing.T, cluster *framework.Cluster, name, key string, to func(string) string, components ...string) {
	t.Helper()
	before, at, err := cluster.ChangeSettings(t.Context(), name, key, to)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _, err := cluster.ChangeSettings(context.WithoutCancel(t.Context()), name, key, func(string) string { return before })
		require.NoError(t, err)
	})
	last, err := cluster.AwaitSettings(t.Context(), name, at, components...)
	require.NoError(t, err)
	t.Logf("%s in force in %s after %s", name, strings.Join(components, ", "), last.Sub(at))
}

// logged reports whether a pod of a component has logged a text.
func logged(ctx context.Context, cluster *framework.Cluster, component, text string) (bool, error) {
	pods, err := cluster.PodsOf(ctx, component)
	if err != nil {
		return false, err
	}
	for i := range pods {
		lines, err := cluster.Logs(ctx, framework.System, pods[i].Name, component, 0)
		if err != nil {
			return false, err
		}
		if strings.Contains(lines, text) {
			return true, nil
		}
	}
	return false, nil
}
