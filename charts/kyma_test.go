package charts

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/migration"
	"github.com/rouse-run/rouse/internal/testing/envtest"
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
	selector := map[string]string{"app": "eventing-manager"}
	manager := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: "eventing-manager"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
			},
		},
	}
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
