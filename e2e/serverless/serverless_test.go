//go:build e2e

package serverless

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// start makes a namespace for Functions, and the one for the Serverless. The changes are undone after the test.
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
		require.NoError(t, cluster.SetChartValues(ctx, "operator.enabled=false", "kyma.publisherAlias=false"))
		require.NoError(t, cluster.DeleteDefinition(ctx, "serverlesses.operator.kyma-project.io")) // an uninstallation keeps it
	})
	return cluster, namespace
}

// operate replaces the chart's Function controller by an operator, and serves Kyma's address for publishers.
func operate(t *testing.T, cluster *framework.Cluster) {
	t.Helper()
	// Stand-ins need the Function controller of the chart.
	require.NoError(t, cluster.SetChartValues(context.WithoutCancel(t.Context()),
		"operator.enabled=true", "operator.namespaces={"+kymaSystem+"}", "functions.standIns.perNamespace=0", "kyma.publisherAlias=true"))
}

// apply writes a Serverless in kyma-system.
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

// awaitReady waits like a pipeline.
func awaitReady(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "kubectl", "wait", "--namespace", kymaSystem, "--timeout=3m", "--for=condition=Ready",
		"serverless/default").CombinedOutput()
	require.NoError(t, err, string(out))
}

// controllerPod returns the only pod of the Function controller.
func controllerPod(t *testing.T, cluster *framework.Cluster) *corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), pods, client.InNamespace(kymaSystem), client.MatchingLabels{"app": "serverless"}))
	require.Len(t, pods.Items, 1)
	return &pods.Items[0]
}

// awaitDeployment waits for a Deployment to meet a condition, and returns the duration.
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

func TestAServerlessRulesTheFunctionControllerWhileFunctionsServe(t *testing.T) {
	cluster, namespace := start(t)
	function := framework.Function{
		Name: "here", Runtime: "nodejs22", Source: always, Spec: map[string]any{"resourceConfiguration": map[string]any{}}, // with the default preset
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "here", "Running", "True", time.Minute))
	load, err := cluster.StartLoad(t.Context(), namespace, "here")
	require.NoError(t, err)
	operate(t, cluster)
	apply(t, cluster, "default", "{}")
	installed := time.Now()
	awaitReady(t)
	t.Logf("the Function controller runs after %s", time.Since(installed).Round(time.Millisecond))

	changeEveryField(t, cluster, namespace)
	repairParts(t, cluster)
	refuseBadInput(t, cluster)
	publishByTheAlias(t, cluster, namespace)

	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "here", "Running", "True", time.Minute))
	report, err := load.Stop(t.Context())
	require.NoError(t, err)
	t.Logf("%d requests meanwhile, %d failed", report.Asked, report.Failed)
	require.Positive(t, report.Asked)
	require.Zero(t, report.Failed, report.Failures)
	remove(t, cluster, namespace)
}

// publishByTheAlias publishes an event at the address that Kyma's publishers have.
func publishByTheAlias(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	publisher := framework.Function{Name: "publisher", Runtime: "nodejs22", Source: fmt.Sprintf(`
module.exports.main = async () => {
  const event = { specversion: '1.0', id: '1', source: %q, type: 'alias.sent.v1', data: {} }
  const answer = await fetch('http://eventing-publisher-proxy.kyma-system/publish', {
    method: 'POST', headers: { 'content-type': 'application/cloudevents+json' }, body: JSON.stringify(event),
  })
  return 'the publisher answers ' + answer.status
}`, namespace)}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, publisher.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "publisher", "the publisher answers 204", 2*time.Minute))
}

// inForce is the maximum delay of a change.
const inForce = 2 * time.Second

// changeEveryField changes one field after the other, and measures the time until its effect.
func changeEveryField(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	pod := controllerPod(t, cluster)
	function := func(wanted func(*appsv1.Deployment) bool) func(time.Time) time.Duration {
		return func(since time.Time) time.Duration {
			awaitDeployment(t, cluster, namespace, "here", time.Minute, wanted)
			return time.Since(since)
		}
	}
	process := func(configMap string) func(time.Time) time.Duration {
		return func(since time.Time) time.Duration {
			at, err := cluster.AwaitFollowed(t.Context(), pod, "manager", configMap, since)
			require.NoError(t, err)
			return at.Sub(since)
		}
	}
	var spec []string
	for _, step := range []struct {
		field string
		await func(time.Time) time.Duration
	}{
		{"eventing: {endpoint: 'http://rouse-eventbridge.rouse-system/publish'}", function(func(d *appsv1.Deployment) bool {
			return env(d, "PUBLISHER_PROXY_ADDRESS") == "http://rouse-eventbridge.rouse-system/publish"
		})},
		{"tracing: {endpoint: 'http://collector.nowhere:4318/v1/traces'}", function(func(d *appsv1.Deployment) bool {
			return env(d, "TRACE_COLLECTOR_ENDPOINT") == "http://collector.nowhere:4318/v1/traces"
		})},
		{"defaultRuntimePodPreset: S", function(func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Spec.Containers[0].Resources.Limits.Cpu().String() == "200m"
		})},
		{"functionRequeueDuration: 2m", process("serverless-config")},
		{"healthzLivenessTimeout: 7s", process("serverless-config")},
		{"logLevel: info", process("serverless-log-config")},
	} {
		spec = append(spec, step.field)
		since := time.Now()
		apply(t, cluster, "default", "{"+strings.Join(spec, ", ")+"}")
		took := step.await(since)
		t.Logf("%s: in force after %s", step.field, took.Round(time.Millisecond))
		require.Less(t, took, inForce, step.field)
	}
	require.Equal(t, pod.UID, controllerPod(t, cluster).UID, "the controller must not restart")

	// As in Kyma it is an annotation of the pods.
	apply(t, cluster, "default", "{"+strings.Join(append(spec, "logFormat: console"), ", ")+"}")
	awaitDeployment(t, cluster, kymaSystem, controller, time.Minute, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations["serverless.kyma-project.io/log-format"] == "console" && d.Status.ObservedGeneration == d.Generation &&
			d.Status.UpdatedReplicas == 1 && d.Status.ReadyReplicas == 1 && d.Status.Replicas == 1
	})
	awaitState(t, cluster, "default", "Ready", time.Minute)
}

// repairParts deletes and changes the operator's objects.
func repairParts(t *testing.T, cluster *framework.Cluster) {
	t.Helper()
	of := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: kymaSystem, Name: name} }
	for _, part := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: of("serverless-config")}, &corev1.ConfigMap{ObjectMeta: of("serverless-log-config")},
		&corev1.ServiceAccount{ObjectMeta: of("serverless-controller-manager")}, &rbacv1.RoleBinding{ObjectMeta: of("serverless-controller-manager")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "rouse-functions"}}, &appsv1.Deployment{ObjectMeta: of(controller)},
	} {
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(part), part))
		old, since := part.GetUID(), time.Now()
		require.NoError(t, cluster.Delete(t.Context(), part))
		require.NoError(t, framework.Await(t.Context(), 10*time.Second, part.GetName()+" to be made again", func(ctx context.Context) (bool, error) {
			err := cluster.Get(ctx, client.ObjectKeyFromObject(part), part)
			return err == nil && part.GetUID() != old, client.IgnoreNotFound(err)
		}))
		t.Logf("%T %s is back after %s", part, part.GetName(), time.Since(since).Round(time.Millisecond))
	}
	scaled := &appsv1.Deployment{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: kymaSystem, Name: controller}, scaled))
	old := scaled.DeepCopy()
	scaled.Spec.Replicas = new(int32(0))
	require.NoError(t, cluster.Patch(t.Context(), scaled, client.MergeFrom(old)))
	took := awaitDeployment(t, cluster, kymaSystem, controller, 10*time.Second, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 1 })
	t.Logf("scaled to zero by hand: back after %s", took.Round(time.Millisecond))
	awaitState(t, cluster, "default", "Ready", time.Minute)
}

// refuseBadInput tests a second Serverless, and invalid values in the first.
func refuseBadInput(t *testing.T, cluster *framework.Cluster) {
	t.Helper()
	apply(t, cluster, "second", "{}")
	conditions := awaitState(t, cluster, "second", "Warning", 10*time.Second)
	require.Equal(t, "ServerlessDuplicated", conditions["Configured"].Reason)
	require.Contains(t, conditions["Configured"].Message, "current served instance: kyma-system/default")
	second := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: "second"}}
	second.SetGroupVersionKind(serverlessGVK)
	require.NoError(t, cluster.Delete(t.Context(), second))

	apply(t, cluster, "default", "{logLevel: loud, functionRequeueDuration: often}")
	conditions = awaitState(t, cluster, "default", "Error", 10*time.Second)
	require.Equal(t, "ConfigurationErr", conditions["Configured"].Reason)
	require.Contains(t, conditions["Configured"].Message, `spec.logLevel "loud" is not known: use one of debug, info, warn, error, fatal`)
	require.Contains(t, conditions["Configured"].Message, `spec.functionRequeueDuration "often" is not a duration`)
	require.Equal(t, "True", conditions["Installed"].Status, "what was in force before goes on")
	apply(t, cluster, "default", "{}")
	awaitState(t, cluster, "default", "Ready", time.Minute)
}

// remove deletes the Serverless while there are Functions, and then these.
func remove(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	one := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: "default"}}
	one.SetGroupVersionKind(serverlessGVK)
	require.NoError(t, cluster.Delete(t.Context(), one))
	conditions := awaitState(t, cluster, "default", "Warning", 10*time.Second)
	require.Equal(t, "DeletionErr", conditions["Deleted"].Reason)
	require.Regexp(t, `^found \d+ items with VersionKind serverless\.kyma-project\.io/v1alpha2$`, conditions["Deleted"].Message)
	require.Contains(t, conditions["Ready"].Message, ": delete these Functions first")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "here", "here", 10*time.Second))

	functions := &metav1.PartialObjectMetadata{}
	functions.SetGroupVersionKind(framework.FunctionGVK)
	require.NoError(t, cluster.DeleteAllOf(t.Context(), functions, client.InNamespace(namespace)))
	since := time.Now()
	require.NoError(t, framework.Await(t.Context(), time.Minute, "the Serverless to be gone", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(one), one)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
	t.Logf("gone %s after the last Function", time.Since(since).Round(time.Millisecond))
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleBindingList{},
		&rbacv1.ClusterRoleBindingList{}, &coordinationv1.LeaseList{},
	} {
		require.NoError(t, cluster.List(t.Context(), list, client.MatchingLabels{"app.kubernetes.io/managed-by": "rouse-operator"}))
		require.Zero(t, meta.LenList(list), "%T", list)
	}
	left := &metav1.PartialObjectMetadataList{}
	left.SetGroupVersionKind(framework.FunctionGVK.GroupVersion().WithKind("FunctionList"))
	require.NoError(t, cluster.List(t.Context(), left), "the CRD of Functions stays")
}
