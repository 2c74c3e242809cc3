//go:build e2e

package serverless

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	kymaSystem = "kyma-system"
	controller = "serverless-ctrl-mngr"
	always     = "module.exports.main = () => 'here'"
)

var serverlessGVK = schema.GroupVersionKind{Group: "operator.kyma-project.io", Version: "v1alpha1", Kind: "Serverless"}

// start makes a namespace for Functions, and the one for the Serverless. What the test does is undone.
func start(t *testing.T) (*framework.Cluster, string) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	namespace, err := cluster.CreateNamespace(t.Context(), "serverless")
	require.NoError(t, err)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kymaSystem}}
	require.NoError(t, client.IgnoreAlreadyExists(cluster.Create(t.Context(), system)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			cluster.Dump(ctx, os.Stdout, namespace)
			cluster.Dump(ctx, os.Stdout, kymaSystem)
		}
		left := &metav1.PartialObjectMetadata{}
		left.SetGroupVersionKind(serverlessGVK)
		if err := cluster.DeleteAllOf(ctx, left, client.InNamespace(kymaSystem)); !meta.IsNoMatchError(err) {
			require.NoError(t, err)
		}
		require.NoError(t, cluster.DeleteNamespace(ctx, namespace))
		helm(t, "operator.enabled=false")
		require.NoError(t, cluster.DeleteDefinition(ctx, "serverlesses.operator.kyma-project.io")) // which the chart keeps
	})
	return cluster, namespace
}

// operate puts an operator in the place of the chart's Function controller.
func operate(t *testing.T) {
	t.Helper()
	helm(t, "operator.enabled=true", "operator.namespaces={"+kymaSystem+"}")
}

func helm(t *testing.T, set ...string) {
	t.Helper()
	args := []string{"upgrade", "rouse", "../../charts/rouse", "--namespace", framework.System, "--reuse-values", "--wait", "--timeout", "3m"}
	for _, value := range set {
		args = append(args, "--set", value)
	}
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "helm", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// apply writes a Serverless of kyma-system.
func apply(t *testing.T, cluster *framework.Cluster, name, spec string) {
	t.Helper()
	require.NoError(t, cluster.ApplyYAML(t.Context(), kymaSystem, fmt.Sprintf(
		"apiVersion: operator.kyma-project.io/v1alpha1\nkind: Serverless\nmetadata: {name: %s}\nspec: %s\n", name, spec)))
}

// awaitState waits for the state of a Serverless and returns its conditions.
func awaitState(t *testing.T, cluster *framework.Cluster, name, state string, timeout time.Duration) map[string]framework.Condition {
	t.Helper()
	require.NoError(t, framework.Await(t.Context(), timeout, "Serverless "+name+" to be "+state, func(ctx context.Context) (bool, error) {
		one := &unstructured.Unstructured{}
		one.SetGroupVersionKind(serverlessGVK)
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: kymaSystem, Name: name}, one); err != nil {
			return false, err
		}
		got, _, _ := unstructured.NestedString(one.Object, "status", "state")
		if got != state {
			return false, fmt.Errorf("is %q: %v", got, one.Object["status"])
		}
		return true, nil
	}))
	conditions, err := cluster.Conditions(t.Context(), kymaSystem, serverlessGVK, name)
	require.NoError(t, err)
	return conditions
}

// awaitReady waits as a pipeline does.
func awaitReady(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "kubectl", "wait", "--namespace", kymaSystem, "--timeout=3m", "--for=condition=Ready",
		"serverless/default").CombinedOutput()
	require.NoError(t, err, string(out))
}

// controllerPod is the one pod of the Function controller.
func controllerPod(t *testing.T, cluster *framework.Cluster) *corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), pods, client.InNamespace(kymaSystem), client.MatchingLabels{"app": "serverless"}))
	require.Len(t, pods.Items, 1)
	return &pods.Items[0]
}

// awaitDeployment waits for a Deployment that is as wanted, and returns how long that took.
func awaitDeployment(
	t *testing.T, cluster *framework.Cluster, namespace, name string, timeout time.Duration, wanted func(*appsv1.Deployment) bool,
) time.Duration {
	t.Helper()
	since := time.Now()
	require.NoError(t, framework.Await(t.Context(), timeout, "Deployment "+namespace+"/"+name, func(ctx context.Context) (bool, error) {
		found := &appsv1.Deployment{}
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found); err != nil {
			return false, err
		}
		if !wanted(found) {
			return false, errors.New("is another one")
		}
		return true, nil
	}))
	return time.Since(since)
}

func env(deployment *appsv1.Deployment, name string) string {
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}
