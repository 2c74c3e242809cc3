//go:build e2e

package features

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// One Function goes from version one to two, to a broken three, and back to two and one, while it is asked all the time.
func TestVersionsChangeUnderLoadWithoutAFailedRequest(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	jobs, err := cluster.RecordJobs(t.Context())
	require.NoError(t, err)
	apply := func(source, dependency string) {
		t.Helper()
		function := framework.Function{
			Name: "changing", Runtime: "nodejs22", Replicas: 2, Source: source,
			Dependencies: fmt.Sprintf(`{"dependencies":{"is-number":"%s"}}`, dependency),
		}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	serves := func(answer string) {
		t.Helper()
		require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "changing", answer, built))
		require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "changing", "Running", "True", time.Minute))
	}
	const source = "module.exports.main = () => 'with ' + require('is-number/package.json').version"
	apply(source, "6.0.0")
	serves("with 6.0.0")
	first := versionOf(t, cluster, namespace, "changing")
	load, err := cluster.StartLoad(t.Context(), namespace, "changing")
	require.NoError(t, err)

	apply(source, "7.0.0")
	serves("with 7.0.0")

	apply("throw new Error('version three does not start')", "7.0.0")
	broken, err := cluster.AwaitMessage(t.Context(), namespace, "changing", "Running", "False", time.Minute, "version three does not start")
	require.NoError(t, err)
	t.Log(broken)
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "changing", "with 7.0.0", 10*time.Second))

	require.NoError(t, cluster.Annotate(t.Context(), namespace, "changing", map[string]string{"rouse.run/rollback-to": "previous"}))
	serves("with 7.0.0")
	require.NoError(t, cluster.Annotate(t.Context(), namespace, "changing", map[string]string{"rouse.run/rollback-to": first}))
	serves("with 6.0.0")
	require.Equal(t, first, versionOf(t, cluster, namespace, "changing"))
	require.Equal(t, 2, jobs.Of(namespace, "changing"), "going back was built")

	report, err := load.Stop(t.Context())
	require.NoError(t, err)
	t.Logf("%d requests, answers %v", report.Asked, report.Answers)
	require.Zero(t, report.Failed, "%v", report.Failures)
	require.Len(t, report.Answers, 2)
}

func TestARegistryCanBeSwitchedUnderLoadAndBack(t *testing.T) {
	t.Parallel()
	const other = "registry.kube-system.svc.cluster.local:5000"
	cluster, namespace := connect(t)
	function := framework.Function{
		Name: "moving", Runtime: "nodejs22", Source: "module.exports.main = () => 'is-number ' + require('is-number/package.json').version",
		Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "is-number 7.0.0", built))
	home := servedImage(t, cluster, namespace, "moving")
	require.False(t, strings.HasPrefix(home, other), home)
	load, err := cluster.StartLoad(t.Context(), namespace, "moving")
	require.NoError(t, err)

	secret := framework.Secret("serverless-registry-config", map[string]string{"serverless.kyma-project.io/remote-registry": "config"}, map[string]string{
		"username": "anybody", "password": "anything", "serverAddress": other, "registryAddress": other,
	})
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, secret))
	awaitServedFrom(t, cluster, namespace, "moving", other)
	require.NoError(t, cluster.DeleteSecret(t.Context(), namespace, "serverless-registry-config"))
	awaitServedFrom(t, cluster, namespace, "moving", home)

	report, err := load.Stop(t.Context())
	require.NoError(t, err)
	t.Logf("%d requests", report.Asked)
	require.Zero(t, report.Failed, "%v", report.Failures)
}

// awaitServedFrom waits until all pods of a Function run an image that begins so.
func awaitServedFrom(t *testing.T, cluster *framework.Cluster, namespace, name, image string) {
	t.Helper()
	require.NoError(t, framework.Await(t.Context(), built, name+" to run "+image, func(ctx context.Context) (bool, error) {
		deployment := &appsv1.Deployment{}
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
			return false, err
		}
		status := deployment.Status
		got := deployment.Spec.Template.Spec.Containers[0].Image
		if !strings.HasPrefix(got, image) {
			return false, fmt.Errorf("it runs %s", got)
		}
		return status.ObservedGeneration == deployment.Generation && status.UpdatedReplicas == status.Replicas && status.ReadyReplicas == 1, nil
	}))
}

func servedImage(t *testing.T, cluster *framework.Cluster, namespace, name string) string {
	t.Helper()
	deployment := &appsv1.Deployment{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, deployment))
	return deployment.Spec.Template.Spec.Containers[0].Image
}

func versionOf(t *testing.T, cluster *framework.Cluster, namespace, name string) string {
	t.Helper()
	function, err := cluster.Function(t.Context(), namespace, name)
	require.NoError(t, err)
	version, _, err := unstructured.NestedString(function.Object, "status", "version")
	require.NoError(t, err)
	require.NotEmpty(t, version)
	return version
}
