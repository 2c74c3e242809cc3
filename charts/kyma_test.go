package charts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/migration"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/transcript"
)

const (
	kymaSystem     = "kyma-system"
	publisherProxy = "eventing-publisher-proxy"
)

func TestTheAliasOfKymasPublisherLeadsToTheEventbridge(t *testing.T) {
	t.Parallel()
	all := render(t, values{"kyma.publisherAlias=true"})
	alias := named[*corev1.Service](t, all, publisherProxy)
	require.Equal(t, kymaSystem, alias.Namespace)
	require.Empty(t, alias.Spec.Selector, "the controller keeps its endpoints")
	bridge := named[*corev1.Service](t, all, "rouse-eventbridge")
	require.Equal(t, bridge.Spec.Ports[0].Port, alias.Spec.Ports[0].Port)
	pods := named[*appsv1.Deployment](t, all, bridge.Name).Spec.Template.Spec.Containers[0]
	require.Equal(t, alias.Spec.Ports[0].TargetPort.IntVal, pods.Ports[0].ContainerPort)
	require.Equal(t, bridge.Spec.Ports[0].TargetPort.StrVal, pods.Ports[0].Name)
	exposing := render(t, values{"kyma.publisherAlias=true", "apiRules.enabled=true"})
	for name, args := range map[string][]string{
		"rouse-controller": argsOf(t, all, "rouse-controller"), "rouse-gateway": argsOf(t, exposing, "rouse-gateway"),
	} {
		require.Contains(t, args, "--publisher-alias="+alias.Namespace+"/"+alias.Name, name)
		require.Contains(t, args, "--publisher-service="+namespace+"/"+bridge.Name, name)
	}
	for _, service := range of[*corev1.Service](render(t, nil)) {
		require.NotEqual(t, publisherProxy, service.Name)
	}
}

func TestFunctionsPublishToTheConfiguredAddress(t *testing.T) {
	t.Parallel()
	const address = "http://eventing-publisher-proxy.kyma-system.svc.cluster.local/publish"
	all := render(t, values{"publisherAddress=" + address})
	require.Equal(t, address, functionConfig(t, all).PublisherAddress)
}

func TestThePresetForUsersOfKymaHasTheirNamesAndAddresses(t *testing.T) {
	t.Parallel()
	all := renderedInstallations(t)[fromKyma]
	const address = "http://eventing-publisher-proxy.kyma-system.svc.cluster.local/publish"
	require.Equal(t, kymaSystem, named[*corev1.Service](t, all, publisherProxy).Namespace)
	require.Equal(t, corev1.ServiceTypeLoadBalancer, named[*corev1.Service](t, all, "rouse-gateway-http").Spec.Type)
	require.Contains(t, argsOf(t, all, "rouse-gateway"), "--gateway-domain=kyma-system/kyma-gateway=local.kyma.dev")
	require.Contains(t, argsOf(t, all, "rouse-controller"), "--authorizers=oauth2-proxy")
	installation := installationOf(t, all)
	require.True(t, installation.Allows("any-namespace"))
	require.Equal(t, address, installation.Defaults.PublisherAddress)

	ours := render(t, values{"@" + chart + "/values-kyma.yaml", "apiRules.domains.kyma-system/kyma-gateway=example.com"})
	require.Contains(t, argsOf(t, ours, "rouse-gateway"), "--gateway-domain=kyma-system/kyma-gateway=example.com")
	require.NotContains(t, strings.Join(argsOf(t, ours, "rouse-gateway"), " "), "local.kyma.dev")
}

func TestControllerChecksForEventingManagerUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	const flag = "--allow-eventing-manager"
	args := func(set values) []string {
		return named[*appsv1.Deployment](t, render(t, set), "rouse-controller").Spec.Template.Spec.Containers[0].Args
	}
	require.NotContains(t, args(nil), flag)
	require.Contains(t, args(values{"kyma.allowEventingManager=true"}), flag)
}

func TestTheControllerFollowsWhatRouseMigrateAsksFor(t *testing.T) {
	t.Parallel()
	for name, all := range renderedInstallations(t) {
		require.Contains(t, argsOf(t, all, "rouse-controller"), "--migration="+namespace+"/"+migration.ConfigMap, name)
		require.Contains(t, named[*rbacv1.Role](t, all, "rouse-controller").Rules, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{migration.ConfigMap}, Verbs: []string{"get", "list", "watch"},
		}, name)
	}
}

func TestReleaseWithEventingManagerMustBeAllowed(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	createNamespace(t, env, kymaSystem)
	try := tryHelmOn(t, env.Config)
	install := []string{"install", "rouse", chart, "--take-ownership", "--dry-run=server"}
	manager := kymaController("eventing-manager")
	require.NoError(t, env.Client.Create(t.Context(), manager))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.Client.Delete(context.WithoutCancel(t.Context()), manager)))
	})

	out, err := try(install...)
	require.Error(t, err, out)
	require.Contains(t, out, "Deployment kyma-system/eventing-manager")
	require.Contains(t, out, "set kyma.allowEventingManager=true")
	out, err = try(append(install, "--set", "kyma.allowEventingManager=true")...)
	require.NoError(t, err, out)

	stopped := manager.DeepCopy()
	stopped.Spec.Replicas = new(int32(0))
	require.NoError(t, env.Client.Patch(t.Context(), stopped, client.MergeFrom(manager)))
	out, err = try(install...)
	require.NoError(t, err, "a stopped eventing-manager deletes nothing: "+out)
}

func TestTheAliasRefusesToReplaceKymasService(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	createNamespace(t, env, kymaSystem)
	run, try := helmOn(t, env.Config), tryHelmOn(t, env.Config)
	kymas := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: publisherProxy},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	require.NoError(t, env.Client.Create(t.Context(), kymas))
	out, err := try("install", "rouse", chart, "--take-ownership", "--set", "kyma.publisherAlias=true")
	require.Error(t, err, out)
	require.Contains(t, out, "it is Kyma's own")
	require.Contains(t, out, "set kyma.publisherAlias=false")

	require.NoError(t, env.Client.Delete(t.Context(), kymas))
	out = run("install", "rouse", chart, "--take-ownership", "--set", "kyma.publisherAlias=true")
	require.Contains(t, out, "http://eventing-publisher-proxy.kyma-system.svc.cluster.local/publish")
	run("upgrade", "rouse", chart, "--reuse-values", "--set", "logLevel=debug")
	alias := &corev1.Service{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(kymas), alias))
	require.NotEmpty(t, alias.Spec.ClusterIP)
	run("uninstall", "rouse", "--no-hooks")
	require.True(t, apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(kymas), alias)), "it goes with the release")
}

func TestTheAliasNeedsItsNamespace(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	removeNamespace(t, env, kymaSystem)
	out, err := tryHelmOn(t, env.Config)("install", "rouse", chart, "--take-ownership", "--dry-run=server", "--set", "kyma.publisherAlias=true")
	require.Error(t, err, out)
	require.Contains(t, out, "there is no namespace kyma-system: create it with kubectl create namespace kyma-system")
}

// The commands of docs/kyma.md that install, on an API server that has Kyma's kinds and controllers, and on one that has neither. Those of
// rouse migrate are run in cli/migrate.
func TestTheCommandsOfThePageForUsersOfKyma(t *testing.T) {
	page, err := os.ReadFile("../docs/kyma.md")
	require.NoError(t, err)
	steps, err := transcript.Parse(string(page))
	require.NoError(t, err)
	steps = slices.DeleteFunc(steps, func(s transcript.Step) bool { return strings.Contains(s.Script, "rouse migrate ") })
	require.Len(t, steps, 3, "install, stop Kyma's controllers, install beside its NATS")

	env := fresh.Environment(t) // its kinds belong to no release
	createNamespace(t, env, kymaSystem)
	names := []string{"serverless-operator", "eventing-manager", "nats-manager", "serverless-ctrl-mngr", "api-gateway-controller-manager"}
	for _, name := range names {
		require.NoError(t, env.Client.Create(t.Context(), kymaController(name)))
	}
	playOn(t, env, steps[1:]...)
	for _, name := range names {
		stopped := &appsv1.Deployment{}
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: kymaSystem, Name: name}, stopped))
		require.Zero(t, *stopped.Spec.Replicas, name)
	}
	controller := &appsv1.Deployment{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "rouse-controller"}, controller))
	require.Contains(t, controller.Spec.Template.Spec.Containers[0].Args, "--stream-replicas=3")

	helmOn(t, env.Config)("uninstall", "rouse", "--no-hooks")
	require.NoError(t, env.Client.DeleteAllOf(t.Context(), &apiextensionsv1.CustomResourceDefinition{}))
	require.Eventually(t, func() bool {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		return env.Client.List(t.Context(), list) == nil && len(list.Items) == 0
	}, time.Minute, 20*time.Millisecond)
	removeNamespace(t, env, kymaSystem)
	playOn(t, env, steps[0])
	serverless := envtest.Object(t, "{apiVersion: operator.kyma-project.io/v1alpha1, kind: Serverless}")
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: kymaSystem, Name: "default"}, serverless))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: kymaSystem, Name: publisherProxy}, &corev1.Service{}))
}

// playOn runs steps of a page on an API server, with the pinned Helm and its kubectl.
func playOn(t *testing.T, env *envtest.Environment, steps ...transcript.Step) {
	t.Helper()
	kubeconfig, err := env.KubeConfig("admin", "system:masters")
	require.NoError(t, err)
	home := t.TempDir()
	file := filepath.Join(home, "kubeconfig")
	require.NoError(t, os.WriteFile(file, kubeconfig, 0o600))
	tool, err := helm()
	require.NoError(t, err)
	path := strings.Join([]string{filepath.Dir(tool), os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv("PATH")}, string(os.PathListSeparator))
	require.NoError(t, transcript.Play(t.Context(), steps, transcript.Options{
		Name: "docs/kyma.md", Dir: "..", Env: append(os.Environ(), "HOME="+home, "KUBECONFIG="+file, "PATH="+path), Timeout: 3 * time.Minute,
	}))
}

func kymaController(name string) *appsv1.Deployment {
	selector := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
			},
		},
	}
}

// removeNamespace acts as the namespace controller, which does not run here.
func removeNamespace(t *testing.T, env *envtest.Environment, name string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := env.Client.Delete(t.Context(), object)
	if apierrors.IsNotFound(err) {
		return
	}
	require.NoError(t, err)
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	object.Spec.Finalizers = nil
	require.NoError(t, env.Client.SubResource("finalize").Update(t.Context(), object))
}
