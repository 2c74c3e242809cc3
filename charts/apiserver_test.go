package charts

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/settings"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// fresh is for a test that takes its kinds away.
var cluster, fresh = envtest.New(), envtest.New()

func TestMain(m *testing.M) {
	code := cluster.Main(m, fresh)
	if err := os.RemoveAll(builtInto); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func TestAPIServerAcceptsEveryObjectAndEveryPodUnderRestricted(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	for _, name := range []string{"keda", kymaSystem} {
		createNamespace(t, env, name)
	}
	t.Cleanup(func() { // otherwise later tests would have to take the objects over
		ofReleases := client.MatchingLabels{"app.kubernetes.io/instance": "rouse"}
		require.NoError(t, env.Client.DeleteAllOf(context.WithoutCancel(t.Context()), &schedulingv1.PriorityClass{}, ofReleases))
	})
	for name, all := range renderedInstallations(t) {
		t.Run(name, func(t *testing.T) {
			for _, object := range all {
				switch typed := object.(type) {
				case *unstructured.Unstructured:
					continue // of the Prometheus operator or KEDA: its kind is not installed
				case *schedulingv1.PriorityClass:
					// Pods require their ServiceAccount.
					require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), typed.DeepCopy())))
				}
				dryApply(t, env.Client, object)
			}
			for _, w := range workloads(all) {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.GetName(), Namespace: namespace}, Spec: *w.Pod.Spec.DeepCopy()}
				for _, claim := range claimsOf(all, w.GetName()) {
					pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
					}})
				}
				require.NoError(t, env.Client.Create(t.Context(), pod, client.DryRunAll), w.GetName())
			}
		})
	}
}

func TestAReleaseIsInstalledUpgradedAndUninstalledWithoutATrace(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	run := helmOn(t, env.Config)

	// The CRDs exist already, as in a cluster with Kyma.
	out := run("install", "rouse", chart, "--take-ownership")
	require.Contains(t, out, "KEDA was not found in this cluster")
	require.Contains(t, out, "no default StorageClass")
	require.Contains(t, out, "nats.persistence.storageClass")
	require.Contains(t, out, "registry.internal.persistence.storageClass")
	require.Contains(t, out, "http://rouse-eventbridge.rouse-system.svc.cluster.local/publish")
	require.Contains(t, run("upgrade", "rouse", chart, "--dry-run=server", "--set", "scaler.externalMetrics.enabled=true"),
		"HorizontalPodAutoscalers scale Functions by their events, as KEDA was not found")
	require.NotEmpty(t, leftovers(t, env))
	before := registryLogin(t, env)
	require.Len(t, before["password"], 40)

	out = run("upgrade", "rouse", chart, "--set", "nats.enabled=false", "--set", "nats.external.url=nats://nats.messaging",
		"--set", "priorityClass.value=1000")
	require.NotContains(t, out, "StorageClass")
	require.Equal(t, before, registryLogin(t, env), "credentials survive an upgrade")
	controller := &appsv1.Deployment{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "rouse-controller"}, controller))
	require.Contains(t, controller.Spec.Template.Spec.Containers[0].Args, "--nats-url=nats://nats.messaging")
	require.Equal(t, "rouse-1000", controller.Spec.Template.Spec.PriorityClassName, "a class keeps its value for ever, so another value is another class")

	run("uninstall", "rouse", "--no-hooks") // without a kubelet no Job completes
	require.Empty(t, leftovers(t, env))
	for _, name := range []string{"functions.serverless.kyma-project.io", "subscriptions.eventing.kyma-project.io"} {
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{}), "the CRDs stay")
	}
}

func TestUpgradeWithReusedValuesKeepsChosenAndGeneratedValues(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	run := helmOn(t, env.Config)
	run("install", "rouse", chart, "--take-ownership", "--set", "runtimes.python314=null", "--set", "priorityClassName=system-cluster-critical", "--set", "nats.users.enabled=true")
	defer run("uninstall", "rouse", "--no-hooks") // without a kubelet no Job completes
	users := &corev1.Secret{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "rouse-nats"}, users))
	before := users.Data
	run("upgrade", "rouse", chart, "--reuse-values", "--set", "logLevel=debug")
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "rouse-nats"}, users))
	require.Equal(t, before, users.Data, "the users of NATS survive an upgrade")

	controller := &appsv1.Deployment{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "rouse-controller"}, controller))
	require.Equal(t, "system-cluster-critical", controller.Spec.Template.Spec.PriorityClassName, "the value's earlier name")
	args := strings.Join(controller.Spec.Template.Spec.Containers[0].Args, "\n")
	log := &corev1.ConfigMap{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "rouse-log-config"}, log))
	require.Contains(t, log.Data[settings.LogKey], "logLevel: debug")
	require.Contains(t, args, "--runtime-image=nodejs24=")
	require.NotContains(t, args, "--runtime-image=python314=")
}

// registryLogin returns the Secret for builds and the registry.
func registryLogin(t *testing.T, env *envtest.Environment) map[string][]byte {
	t.Helper()
	secret := &corev1.Secret{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "rouse-registry"}, secret))
	return secret.Data
}

// helmOn returns a function that runs Helm on a cluster, with a separate home directory.
func helmOn(t *testing.T, config *rest.Config) func(args ...string) string {
	t.Helper()
	try := tryHelmOn(t, config)
	return func(args ...string) string {
		t.Helper()
		out, err := try(args...)
		require.NoError(t, err, out)
		return out
	}
}

// tryHelmOn is helmOn for commands that may fail.
func tryHelmOn(t *testing.T, config *rest.Config) func(args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"test": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"test": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*api.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, kubeconfig))
	path, err := helm()
	require.NoError(t, err)
	return func(args ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), path, append(args, "--namespace", namespace)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+kubeconfig)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

func createNamespace(t *testing.T, env *envtest.Environment, name string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), object)))
}

func restrictedNamespace(t *testing.T, env *envtest.Environment) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), object)))
}

func dryApply(t *testing.T, kube client.Client, object client.Object) {
	t.Helper()
	text, err := json.Marshal(object)
	require.NoError(t, err)
	untyped := &unstructured.Unstructured{}
	require.NoError(t, untyped.UnmarshalJSON(text))
	unstructured.RemoveNestedField(untyped.Object, "status")
	err = kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(untyped), client.DryRunAll, client.ForceOwnership, client.FieldOwner("test"))
	require.NoError(t, err, "%s %s", untyped.GetKind(), untyped.GetName())
}

// claimsOf returns the names of the claims that a StatefulSet adds to its pods.
func claimsOf(all objects, name string) []string {
	var claims []string
	for _, set := range of[*appsv1.StatefulSet](all) {
		for _, claim := range set.Spec.VolumeClaimTemplates {
			if set.Name == name {
				claims = append(claims, claim.Name)
			}
		}
	}
	return claims
}

// leftovers lists the objects of the release, except the CRDs.
func leftovers(t *testing.T, env *envtest.Environment) []string {
	t.Helper()
	var found []string
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.ServiceAccountList{}, &corev1.PersistentVolumeClaimList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{},
		&rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}, &coordinationv1.LeaseList{},
		&schedulingv1.PriorityClassList{},
	} {
		require.NoError(t, env.Client.List(t.Context(), list, client.MatchingLabels{"app.kubernetes.io/instance": "rouse"}))
		text, err := json.Marshal(list)
		require.NoError(t, err)
		items := &metav1.PartialObjectMetadataList{}
		require.NoError(t, json.Unmarshal(text, items))
		for _, item := range items.Items {
			if item.DeletionTimestamp != nil {
				continue // a claim, whose controller does not run here
			}
			found = append(found, item.Namespace+"/"+item.Name)
		}
	}
	return found
}
