package charts

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

func TestPermissionsAreSplitWithAnOperatorAndNoneIsAdded(t *testing.T) {
	t.Parallel()
	rights := func(roles ...*rbacv1.ClusterRole) map[string]bool {
		all := map[string]bool{}
		for _, role := range roles {
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all[strings.Join([]string{rule.APIGroups[0], resource, verb, strings.Join(rule.ResourceNames, ",")}, " ")] = true
					}
				}
			}
		}
		return all
	}
	without, with := render(t, values{"apiRules.enabled=true", boundedFunctions[0]}),
		render(t, values{"apiRules.enabled=true", boundedFunctions[0], "operator.enabled=true"})
	role := func(all objects, name string) *rbacv1.ClusterRole { return named[*rbacv1.ClusterRole](t, all, name) }
	require.Equal(t, rights(role(without, "rouse-controller")), rights(role(with, "rouse-controller"), role(with, "rouse-functions")))
	withoutDoors := render(t, values{"apiRules.enabled=true", "doors.enabled=false", boundedFunctions[0], "operator.enabled=true"})
	require.NotContains(t, rights(role(withoutDoors, "rouse-controller")), " secrets get ", "Secrets are read for Functions and Doors alone")
	require.Empty(t, verbsOn(role(with, "rouse-controller"), "networkpolicies"))
}

func TestOperatorWritesByNameAndHoldsNoPermissionThatItGrants(t *testing.T) {
	t.Parallel()
	for _, name := range []string{operated, operatedAnywhere} {
		all := renderedInstallations(t)[name]
		for _, role := range []string{"rouse-operator", "rouse-operator-parts"} {
			for _, rule := range named[*rbacv1.ClusterRole](t, all, role).Rules {
				require.NotContains(t, rule.Resources, "secrets")
				require.NotContains(t, rule.Resources, "pods")
				if rule.APIGroups[0] == "operator.kyma-project.io" || rule.Resources[0] == "events" {
					continue
				}
				for _, verb := range []string{"create", "patch", "delete", "bind"} {
					if slices.Contains(rule.Verbs, verb) {
						require.NotEmpty(t, rule.ResourceNames, "%s: %s %v", role, verb, rule.Resources)
					}
				}
			}
		}
	}
	bound := func(all objects) (everywhere bool, namespaces []string) {
		for _, binding := range of[*rbacv1.ClusterRoleBinding](all) {
			everywhere = everywhere || binding.RoleRef.Name == "rouse-operator-parts"
		}
		for _, binding := range of[*rbacv1.RoleBinding](all) {
			if binding.RoleRef.Name == "rouse-operator-parts" {
				namespaces = append(namespaces, binding.Namespace)
			}
		}
		return everywhere, namespaces
	}
	everywhere, namespaces := bound(renderedInstallations(t)[operated])
	require.False(t, everywhere)
	require.Equal(t, []string{"rouse-system", "kyma-system"}, namespaces)
	everywhere, namespaces = bound(renderedInstallations(t)[operatedAnywhere])
	require.True(t, everywhere)
	require.Empty(t, namespaces)
	_, namespaces = bound(render(t, values{"operator.enabled=true"}))
	require.Equal(t, []string{namespace}, namespaces, "as it comes the operator works in its own namespace")
}

func TestUninstallRemovesFunctionControllersOfServerlesses(t *testing.T) {
	t.Parallel()
	job := named[*batchv1.Job](t, renderedInstallations(t)[operated], "rouse-uninstall-serverless")
	require.Equal(t, "post-delete", job.Annotations["helm.sh/hook"], "when no operator makes them again")
	require.Equal(t, []string{"/operator", "uninstall"}, job.Spec.Template.Spec.Containers[0].Command)
	require.Contains(t, named[*batchv1.Job](t, renderedInstallations(t)[operatedAnywhere], "rouse-uninstall").
		Spec.Template.Spec.Containers[0].Args, "--serverlesses", "else their finalizers would hold the CRD for ever")
	for _, plain := range of[*batchv1.Job](render(t, values{"crds.keep=false"})) {
		require.NotContains(t, plain.Name, "serverless")
		require.NotContains(t, plain.Spec.Template.Spec.Containers[0].Args, "--serverlesses")
	}
}

// The operator runs here with exactly the permissions of the chart.
func TestOperatorsPermissionsSufficeToInstallAndRemoveAFunctionController(t *testing.T) {
	const timeout = time.Minute
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	createNamespace(t, env, kymaSystem)
	all := render(t, installations[operated])
	for _, role := range of[*rbacv1.ClusterRole](all) {
		provide(t, env.Client, role)
	}
	for _, binding := range of[*rbacv1.ClusterRoleBinding](all) {
		provide(t, env.Client, binding)
	}
	for _, binding := range of[*rbacv1.RoleBinding](all) {
		provide(t, env.Client, binding)
	}
	account := rest.CopyConfig(env.Config)
	account.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":rouse-operator",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	installation := installationOf(t, all)
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	controllers := config.Controller{SkipNameValidation: new(true)}
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: controllers,
		Cache: cache.Options{ByObject: serverless.CacheObjects(installation)},
	})
	require.NoError(t, err)
	require.NoError(t, serverless.Setup(mgr, installation))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()

	one := &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: "default"}}
	require.NoError(t, env.Client.Create(t.Context(), one))
	require.Eventually(t, func() bool {
		_ = env.Client.Get(t.Context(), client.ObjectKeyFromObject(one), one)
		for _, part := range resources.Parts(kymaSystem, installation) {
			live := &metav1.PartialObjectMetadata{}
			live.SetGroupVersionKind(part.Kind)
			if env.Client.Get(t.Context(), part.Key, live) != nil {
				return false
			}
		}
		return one.Status.State == operatorv1alpha1.StateProcessing
	}, timeout, 50*time.Millisecond, "%+v", &one.Status)

	intruder, err := client.New(account, client.Options{Scheme: scheme})
	require.NoError(t, err)
	for name, attack := range map[string]func() error{
		"bind another role": func() error {
			return intruder.Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "mine"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"},
			})
		},
		"bind another role by the name of its binding": func() error {
			text := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"serverless-controller-manager"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`
			return intruder.Patch(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: resources.AccountName}},
				client.RawPatch(types.ApplyPatchType, []byte(text)), client.FieldOwner("intruder"))
		},
		"widen the role that it binds": func() error {
			return intruder.Patch(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "rouse-functions"}},
				client.RawPatch(types.MergePatchType, []byte(`{"rules":[]}`)))
		},
		"run pods of another name": func() error {
			return intruder.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: "mine"}})
		},
		"run pods elsewhere": func() error {
			return intruder.Patch(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: resources.DeploymentName}},
				client.RawPatch(types.ApplyPatchType, []byte(`{"apiVersion":"apps/v1","kind":"Deployment"}`)), client.FieldOwner("intruder"))
		},
		"read a Secret": func() error { return intruder.List(t.Context(), &corev1.SecretList{}, client.InNamespace(kymaSystem)) },
		"delete a CRD": func() error {
			crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "functions.serverless.kyma-project.io"}}
			crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
			return intruder.Delete(t.Context(), crd)
		},
	} {
		err := attack()
		require.True(t, apierrors.IsForbidden(err), "%s: %v", name, err)
	}

	require.NoError(t, env.Client.Delete(t.Context(), one))
	require.Eventually(t, func() bool {
		deployment := &appsv1.Deployment{}
		key := types.NamespacedName{Namespace: kymaSystem, Name: resources.DeploymentName}
		if env.Client.Get(t.Context(), key, deployment) == nil && deployment.DeletionTimestamp != nil {
			deployment.Finalizers = nil // no garbage collector runs here
			_ = env.Client.Update(t.Context(), deployment)
		}
		return apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(one), one))
	}, timeout, 50*time.Millisecond, "%+v", &one.Status)
}

// provide creates an object, which is deleted after the test.
func provide(t *testing.T, kube client.Client, object client.Object) {
	t.Helper()
	made, ok := object.DeepCopyObject().(client.Object)
	require.True(t, ok)
	require.NoError(t, client.IgnoreAlreadyExists(kube.Create(t.Context(), made)))
	t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(kube.Delete(context.Background(), made))) })
}
