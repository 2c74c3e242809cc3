//go:build e2e

package features

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/verbs"
)

const asleep = 90 * time.Second // timeout for a Function with fast settings to fall asleep

// connect connects to the cluster, makes a namespace for the feature, and dumps both on a failure.
func connect(t *testing.T) (*framework.Cluster, string) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	return cluster, cluster.TestNamespace(t, "e2e")
}

// sleeper applies a Function that scales to zero with its Subscription, and waits until both are ready and the Function
// sleeps.
func sleeper(t *testing.T, cluster *framework.Cluster, namespace, eventType string, function framework.Function) {
	t.Helper()
	function.Asleep = true
	if function.Annotations == nil {
		function.Annotations = framework.Fast()
	}
	if function.Runtime == "" {
		function.Runtime = "nodejs22"
	}
	subscription := framework.Subscription{Name: function.Name, Namespace: namespace, Type: eventType, Sink: function.Name}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()+"---\n"+subscription.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, function.Name, "Running", "True", 2*time.Minute))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, function.Name))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, function.Name, 0, asleep))
}

// publishMany publishes n events and returns their keys. Each event's data is {"key": key}.
func publishMany(t *testing.T, cluster *framework.Cluster, eventType, prefix string, n int) []string {
	t.Helper()
	keys, run := make([]string, n), rand.Text()[:6] // ids of an earlier run are deduplicated for some time
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%s-%04d", prefix, run, i)
	}
	require.NoError(t, publishAll(t.Context(), cluster, eventType, keys))
	return keys
}

// Not parallel: it changes settings of all Functions of the cluster.
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

	// Debugging of a single Function. The bridge gets the annotation from its Service.
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

	// The publisher's address, under load. The new address refers to the same server.
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

	// An invalid file changes nothing and is reported.
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

// change changes a file of settings until the end of the test, and waits until all pods of the components apply it. It
// logs the delay: within two seconds unless the machine is busy.
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

// A pod of Kyma's contract runs under the restricted level with a read-only root. The image has a shell, an interpreter
// and a server: the runtime's own, in the role of a foreign one.
func TestAnImageRunsByKymasContract(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for runtime, source := range map[string]string{
		"nodejs22":  "module.exports.main = () => '$$ $(FUNC_NAME)'",
		"python312": "def main(event, context):\n    return '$$ $(FUNC_NAME)'\n",
	} {
		t.Run(runtime, func(t *testing.T) {
			own := framework.Function{Name: "own-" + runtime, Runtime: runtime, Source: source}
			require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, own.YAML()))
			require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, own.Name, "Running", "True", 2*time.Minute))
			function, err := cluster.Function(t.Context(), namespace, own.Name)
			require.NoError(t, err)
			image, _, err := unstructured.NestedString(function.Object, "status", "runtimeImage")
			require.NoError(t, err)

			kyma := framework.Function{
				Name: "kyma-" + runtime, Runtime: runtime, Source: source,
				Annotations: map[string]string{"rouse.run/runtime-contract": "kyma"}, Spec: map[string]any{"runtimeImageOverride": image},
			}
			require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, kyma.YAML()))
			require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, kyma.Name, "$$ $(FUNC_NAME)", 2*time.Minute))
		})
	}
}

// Enforcement is not tested here: the network of the local cluster enforces no NetworkPolicies.
func TestFunctionHasItsNetworkPolicyThroughoutItsLife(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	controller := &appsv1.Deployment{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: framework.System, Name: "rouse-controller"}, controller))
	has := func(flag string) bool {
		return slices.ContainsFunc(controller.Spec.Template.Spec.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") })
	}
	if !has("--function-network-policy") {
		t.Skip("this release has no NetworkPolicies of Functions")
	}
	want := map[string]bool{"eventbridge": true, "gateway": true, "scaler": true}
	if has("--stand-ins-per-namespace") {
		want["controller"] = true // it hands Functions over
	}
	function := framework.Function{Name: "bounded", Runtime: "nodejs22", Source: "module.exports.main = () => 'ok'"}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "bounded", "Running", "True", 2*time.Minute))

	policy := &networkingv1.NetworkPolicy{}
	key := client.ObjectKey{Namespace: namespace, Name: "rouse-bounded"}
	require.NoError(t, cluster.Get(t.Context(), key, policy))
	require.Equal(t, "Function", metav1.GetControllerOf(policy).Kind)
	pods, system := &corev1.PodList{}, &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels(policy.Spec.PodSelector.MatchLabels)))
	require.Len(t, pods.Items, 1, "it selects the Function's pod")
	require.Zero(t, *pods.Items[0].Spec.Priority, "Functions have no priority")

	callers, err := metav1.LabelSelectorAsSelector(policy.Spec.Ingress[0].From[0].PodSelector)
	require.NoError(t, err)
	require.NoError(t, cluster.List(t.Context(), system, client.InNamespace(framework.System), client.MatchingLabels{"app.kubernetes.io/part-of": "rouse"}))
	admitted := map[string]bool{}
	for _, pod := range system.Items {
		require.Equal(t, int32(2000000), *pod.Spec.Priority, pod.Name)
		if callers.Matches(labels.Set(pod.Labels)) {
			admitted[pod.Labels["app.kubernetes.io/component"]] = true
		}
	}
	require.Equal(t, want, admitted)

	widened := policy.DeepCopy()
	widened.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	require.NoError(t, cluster.Update(t.Context(), widened))
	require.Eventually(t, func() bool {
		found := &networkingv1.NetworkPolicy{}
		return cluster.Get(t.Context(), key, found) == nil && len(found.Spec.Ingress[0].From) == len(policy.Spec.Ingress[0].From)
	}, time.Minute, 100*time.Millisecond, "a widened policy is repaired")
	gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bounded"}}
	gone.SetGroupVersionKind(framework.FunctionGVK)
	require.NoError(t, cluster.Delete(t.Context(), gone))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(cluster.Get(t.Context(), key, policy))
	}, 2*time.Minute, 200*time.Millisecond, "it goes with its Function")
}

// The API server of the unit tests does not aggregate roles; a cluster does.
func TestKubernetesRolesIncludeRousesResources(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	may := func(user, verb, group, resource string) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource},
		}}
		require.NoError(t, cluster.Create(t.Context(), review))
		return review.Status.Allowed
	}
	for _, role := range []string{"view", "edit", "admin"} {
		require.NoError(t, cluster.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		}))
		require.Eventually(t, func() bool { return may(role, "get", "serverless.kyma-project.io", "functions") }, time.Minute, 50*time.Millisecond)
		for group, resource := range map[string]string{
			"serverless.kyma-project.io": "functions", "eventing.kyma-project.io": "subscriptions", "gateway.kyma-project.io": "apirules",
		} {
			require.True(t, may(role, "list", group, resource), "%s: %s", role, resource)
			require.Equal(t, role != "view", may(role, "delete", group, resource), "%s: %s", role, resource)
		}
	}
}

// TestATenantHandlesTheDeadLettersOfItsNamespaceAlone uses a kubeconfig with a token that has the ClusterRoles edit in
// one namespace and view in another.
func TestATenantHandlesTheDeadLettersOfItsNamespaceAlone(t *testing.T) {
	t.Parallel()
	cluster, own := connect(t)
	other, err := cluster.CreateNamespace(t.Context(), "e2e")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		require.NoError(t, cluster.DeleteNamespace(ctx, other))
	})
	const refusing = "module.exports.main = (event) => { event.setResponseStatus(400); return 'no such order' }"
	for _, namespace := range []string{own, other} {
		// Separate types, so that each Subscription has one dead letter.
		subscription := framework.Subscription{Name: "refusing", Namespace: namespace, Type: "rights." + namespace + ".v1", Sink: "refusing"}
		function := framework.Function{Name: "refusing", Runtime: "nodejs22", Source: refusing}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()+"---\n"+subscription.YAML()))
		require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "refusing"))
		require.NoError(t, cluster.Publish(t.Context(), framework.Event{ID: namespace, Type: "rights." + namespace + ".v1", Data: map[string]any{"iban": "DE1"}}))
	}
	operator := buildRouse(t, other)
	for _, namespace := range []string{own, other} {
		operator("events", "tail", "-A", "--id", namespace, "--kind", "deadlettered", "--limit", "1", "--since", "5m")
	}

	token, err := cluster.Tenant(t.Context(), own, "edit")
	require.NoError(t, err)
	kubeconfig, err := cluster.WriteKubeconfig(t.TempDir(), own, token)
	require.NoError(t, err)
	urls, err := cluster.AdminAPIs(t.Context())
	require.NoError(t, err)
	program, err := verbs.Build(t.Context(), filepath.Join("..", ".."), t.TempDir())
	require.NoError(t, err)
	tenant := verbs.Rouse{Program: program, Where: []string{"--kubeconfig", kubeconfig, "--admin-url", strings.Join(urls, ",")}}
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		out, err := tenant.Run(ctx, args...)
		return string(out), err
	}
	listed := func(what string, args ...string) (out string) {
		require.NoError(t, framework.Await(t.Context(), time.Minute, what, func(context.Context) (bool, error) { // role bindings take a moment to apply
			var err error
			out, err = run(args...)
			return err == nil, err
		}))
		return out
	}
	mine := listed("the tenant's right", "dlq", "list")
	require.Contains(t, mine, own+"/refusing")
	require.NotContains(t, mine, other)
	sequence, err := run("dlq", "list", "-o", "name")
	require.NoError(t, err)
	sequence = strings.TrimSpace(sequence)
	shown, err := run("dlq", "show", sequence)
	require.NoError(t, err)
	require.Contains(t, shown, "DE1")
	happened, err := run("events", "tail", "--follow=false", "--since", "5m")
	require.NoError(t, err)
	require.Contains(t, happened, own+"/refusing")
	require.NotContains(t, happened, other)

	for _, refused := range [][]string{
		{"dlq", "list", "-n", other},
		{"dlq", "list", "-A"},
		{"dlq", "purge", "--all", "--yes", "-n", other},
		{"dlq", "redrive", "--all", "--yes", "-n", other},
		{"dlq", "show", sequence, "-A"},
		{"events", "tail", "--follow=false", "-n", other},
		{"events", "tail", "-n", other},
	} {
		_, err := run(refused...)
		require.ErrorContains(t, err, "system:serviceaccount:"+own+":tenant may not ", "%v", refused)
		require.ErrorContains(t, err, "ask for a ", "%v", refused)
	}
	foreign := strings.TrimSpace(operator("dlq", "list", "-o", "name"))
	_, err = run("dlq", "show", foreign)
	require.ErrorContains(t, err, "there is no dead letter "+foreign+" in namespace "+own)

	require.NoError(t, cluster.ApplyYAML(t.Context(), other, viewerOf(own)))
	require.Contains(t, listed("the guest's right", "dlq", "list", "-n", other), other+"/refusing")
	_, err = run("dlq", "show", foreign, "-n", other)
	require.ErrorContains(t, err, "may not get deadletters.rouse.run in namespace "+other)
	require.ErrorContains(t, err, "ask for a RoleBinding there to the ClusterRole edit")

	purged, err := run("dlq", "purge", sequence)
	require.NoError(t, err)
	require.Contains(t, purged, "namespace "+own+" of the cluster of ")
	require.Contains(t, purged, ": purged 1\n")
	require.Contains(t, operator("dlq", "list"), other+"/refusing")
}

// viewerOf gives the tenant of another namespace the role view in this one.
func viewerOf(namespace string) string {
	return `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "guest"},
 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
 "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "` + namespace + `"}]}`
}
