//go:build e2e

package features

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestACommitIsReadyByKubectlWaitAndNeverDrifts(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	function := framework.Function{
		Name: "committed", Runtime: "nodejs22", Asleep: true, Max: 1, Annotations: framework.Fast(), Source: `module.exports.main = () => 'committed'`,
	}
	subscription := framework.Subscription{Name: "committed", Namespace: namespace, Type: "commit.made.v1", Sink: "committed"}
	commit := gitops.NewCommit(t, namespace, function.YAML(), subscription.YAML())
	require.NoError(t, commit.Apply(t.Context(), cluster.WithWatch))
	kubectlWait(t, namespace, "--for=condition=Ready", "function/committed", "subscription/committed")
	requireHealthy(t, cluster, commit)

	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "committed", 0, asleep))
	kubectlWait(t, namespace, "--for=condition=Ready", "function/committed")
	commit.RequireNoDrift(t, cluster.WithWatch, 6, time.Second, func(round int) {
		if round == 1 { // it wakes and falls asleep meanwhile
			publishMany(t, cluster, "commit.made.v1", "commit", 1)
		}
	})
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "committed", 0, asleep))
	commit.RequireQuiet(t, cluster.WithWatch, 4, time.Second)

	function.Dependencies, subscription.Type = `{"dependencies": {"lodash" "4.17.21"}}`, "one"
	broken := gitops.NewCommit(t, namespace, function.YAML(), subscription.YAML())
	require.NoError(t, broken.Apply(t.Context(), cluster.WithWatch))
	kubectlWait(t, namespace, "--for=condition=Stalled", "function/committed", "subscription/committed")
	kubectlWait(t, namespace, "--for=condition=Ready=false", "function/committed", "subscription/committed")
	for i, says := range []string{"It has to be a package.json", "must have minimum 2 segments"} {
		health, message := healthOf(t, cluster, broken[i])
		require.Equal(t, gitops.Health{Kstatus: "Failed", Argo: "Degraded"}, health)
		require.Contains(t, message, says, "it says what to correct")
	}

	require.NoError(t, commit.Apply(t.Context(), cluster.WithWatch))
	kubectlWait(t, namespace, "--for=condition=Ready", "function/committed", "subscription/committed")
	requireHealthy(t, cluster, commit)
}

// kubectlWait does what a pipeline does.
func kubectlWait(t *testing.T, namespace string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", append([]string{"wait", "--namespace", namespace, "--timeout=6m"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

func requireHealthy(t *testing.T, cluster *framework.Cluster, commit gitops.Commit) {
	t.Helper()
	for _, object := range commit {
		health, message := healthOf(t, cluster, object)
		require.Equal(t, gitops.Health{Kstatus: "Current", Argo: "Healthy"}, health, message)
	}
}

func healthOf(t *testing.T, cluster *framework.Cluster, object *unstructured.Unstructured) (health gitops.Health, message string) {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(object), live))
	return gitops.HealthOf(t, live)
}
