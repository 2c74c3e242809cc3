//go:build e2e

package features

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/framework/sources"
)

func TestABuildThatFailsSaysWhyAndIsNotTriedInVain(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	jobs, err := cluster.RecordJobs(t.Context())
	require.NoError(t, err)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	require.NoError(t, server.PublishNPM(t.Context(), "native", map[string]string{
		"index.js": "module.exports = require('./build/Release/native.node')", "binding.gyp": `{"targets":[{"target_name":"native","sources":["native.c"]}]}`,
		"native.c": "int native;\n",
	}))
	serving := framework.Function{
		Name: "serving", Runtime: "nodejs22", Source: "module.exports.main = () => 'still ' + require('is-number/package.json').version",
		Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`,
	}
	config := framework.Secret("serverless-package-registry-config", nil, map[string]string{".npmrc": server.NPMRC()})
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, config+"---\n"+serving.YAML()))

	for name, tc := range bad {
		function := framework.Function{Name: name, Runtime: tc.runtime, Source: handlers[tc.runtime], Dependencies: tc.dependencies}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "serving", "still 7.0.0", built))
	serving.Dependencies = `{"dependencies":{"is-number":"99.0.0"}}`
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, serving.YAML()))

	for name, tc := range bad {
		requireFailure(t, cluster, namespace, name, tc.condition, tc.says...)
	}
	requireFailure(t, cluster, namespace, "serving", "BuildReady", "is-number", "99.0.0")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "serving", "still 7.0.0", 10*time.Second), "the previous version does not serve")
	for name := range bad {
		requireTries(t, cluster, jobs, namespace, name, 1)
	}
	requireTries(t, cluster, jobs, namespace, "serving", 2)
}

var bad = map[string]struct {
	runtime, dependencies, condition string
	says                             []string
}{
	"no-json": {
		runtime: "nodejs22", dependencies: `{"dependencies": {"lodash" "4.17.21"}}`, condition: "ConfigurationReady",
		says: []string{"line 1", "It has to be a package.json"},
	},
	"no-requirement": {
		runtime: "python312", dependencies: "requests==2.32.5\n=== what is this\n", condition: "BuildReady",
		says: []string{"what is this"},
	},
	"no-such-package": {
		runtime: "nodejs22", dependencies: `{"dependencies":{"@rouse-run/there-is-no-such-package":"1.0.0"}}`, condition: "BuildReady",
		says: []string{"@rouse-run/there-is-no-such-package"},
	},
	"no-such-version": {
		runtime: "python312", dependencies: "requests==99.99\n", condition: "BuildReady", says: []string{"requests==99.99"},
	},
	"no-compiler": {
		runtime: "nodejs22", dependencies: `{"dependencies":{"@shop/native":"1.0.0"}}`, condition: "BuildReady",
		says: []string{"compiler", "runtimeImageOverride"},
	},
}

// The registry is down for a moment: running Functions go on. Builds wait, say for what, and run by themselves when the
// registry is back. No other feature may build at that time.
func TestBuildsWaitForARegistryThatIsDown(t *testing.T) {
	cluster, namespace := connect(t)
	runs := framework.Function{
		Name: "runs", Runtime: "nodejs22", Source: "module.exports.main = () => require('is-number/package.json').version",
		Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, runs.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "runs", "7.0.0", built))

	scaleRegistry(t, cluster, 0)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, setRegistry(ctx, cluster, 1))
	})
	waits := runs
	waits.Name = "waits"
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, waits.YAML()))
	require.NoError(t, framework.Await(t.Context(), time.Minute, "a word about the registry", func(ctx context.Context) (bool, error) {
		conditions, err := cluster.Conditions(ctx, namespace, framework.FunctionGVK, "waits")
		return strings.Contains(conditions["BuildReady"].Message, "registry"), err
	}))
	conditions, err := cluster.Conditions(t.Context(), namespace, framework.FunctionGVK, "waits")
	require.NoError(t, err)
	t.Log(conditions["BuildReady"])
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "runs", "7.0.0", 10*time.Second))

	scaleRegistry(t, cluster, 1)
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "waits", "7.0.0", 2*time.Minute))
}

func scaleRegistry(t *testing.T, cluster *framework.Cluster, replicas int32) {
	t.Helper()
	require.NoError(t, setRegistry(t.Context(), cluster, replicas))
	require.NoError(t, framework.Await(t.Context(), time.Minute, "the registry to follow", func(ctx context.Context) (bool, error) {
		deployment := &appsv1.Deployment{}
		err := cluster.Get(ctx, client.ObjectKey{Namespace: framework.System, Name: registryName}, deployment)
		return deployment.Status.Replicas == replicas && deployment.Status.ReadyReplicas == replicas, err
	}))
}

const registryName = "rouse-registry"

func setRegistry(ctx context.Context, cluster *framework.Cluster, replicas int32) error {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: registryName, Namespace: framework.System}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	_, err := cluster.Kube.AppsV1().Deployments(framework.System).UpdateScale(ctx, registryName, scale, metav1.UpdateOptions{})
	return err
}

// requireTries fails when a Function was built more often than it had reason to: for each of its specs, and after each
// failure that passes by itself, such as a network that was away.
func requireTries(t *testing.T, cluster *framework.Cluster, jobs *framework.Jobs, namespace, name string, specs int) {
	t.Helper()
	events, err := cluster.Events(t.Context(), namespace, name)
	require.NoError(t, err)
	passed := 0
	for _, event := range events {
		if event.Reason == "JobFailed" && strings.Contains(event.Message, "It is retried at") {
			passed++
		}
	}
	require.LessOrEqual(t, jobs.Of(namespace, name), specs+passed, "%s was built again although nothing changed", name)
}

// requireFailure waits until a condition is False and names its cause, with an event that says the same.
func requireFailure(t *testing.T, cluster *framework.Cluster, namespace, name, condition string, says ...string) {
	t.Helper()
	got, err := cluster.AwaitMessage(t.Context(), namespace, name, condition, "False", built, says...)
	require.NoError(t, err)
	t.Logf("%s: %s: %s", name, got.Reason, got.Message)
	require.NoError(t, framework.Await(t.Context(), 20*time.Second, "an event of "+name, func(ctx context.Context) (bool, error) {
		events, err := cluster.Events(ctx, namespace, name)
		return slices.ContainsFunc(events, func(event corev1.Event) bool {
			return event.Type == corev1.EventTypeWarning && event.Reason == got.Reason
		}), err
	}))
}
