package serverless

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestAServerlessBringsTheFunctionControllerAndTakesItAlong(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	status := f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
	require.Equal(t, []string{"Configured True Configured Configuration ready", "Installed Unknown Installation Installing for configuration"},
		shown(status.Conditions, "Configured", "Installed"))
	require.Equal(t, operatorv1alpha1.ServedTrue, status.Served)
	f.rollOut()
	status = f.status(f.namespace, hasState(operatorv1alpha1.StateReady))
	require.Equal(t, "http://bridge/publish", status.EventingEndpoint)
	require.Equal(t, "XS", status.DefaultRuntimePodPreset, "there is no node")
	require.Equal(t, "Serverless installed", gitops.RequireCurrent(t, f.live(one)))
	require.Equal(t, "True", status.NetworkPoliciesEnabled)
	require.Equal(t, int64(1), status.ObservedGeneration)
	require.Equal(t, "Normal", f.event("Serverless installed").Type)
	require.Equal(t, "Configuration", f.event("Default runtime pod preset set from '' to 'XS'").Reason)
	for _, part := range resources.Parts(f.namespace, f.installation) {
		require.NoError(t, f.Get(t.Context(), part.Key, metadataOf(part.Kind)), "%s %s", part.Kind.Kind, part.Key)
	}

	require.NoError(t, f.Delete(t.Context(), one))
	f.until(func(ctx context.Context) bool {
		f.collect(ctx, f.namespace)
		return apierrors.IsNotFound(f.Get(ctx, client.ObjectKeyFromObject(one), &operatorv1alpha1.Serverless{}))
	}, "it goes")
	for _, part := range resources.Parts(f.namespace, f.installation) {
		require.True(t, apierrors.IsNotFound(f.Get(t.Context(), part.Key, metadataOf(part.Kind))), "%s %s", part.Kind.Kind, part.Key)
	}
	f.event("Serverless module deleted")
}

func TestPartsThatSomebodyChangesOrDeletesAreRepaired(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))

	for _, part := range resources.Parts(f.namespace, f.installation) {
		if part.Kind == resources.KindLease {
			continue // it belongs to the one who holds it
		}
		live := metadataOf(part.Kind)
		require.NoError(t, f.Get(t.Context(), part.Key, live))
		old := live.UID
		require.NoError(t, f.Delete(t.Context(), live))
		f.until(func(ctx context.Context) bool {
			fresh := metadataOf(part.Kind)
			return f.Get(ctx, part.Key, fresh) == nil && fresh.UID != old
		}, part.Kind.Kind+" is made again")
	}
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))

	for name, change := range map[string]func(*appsv1.Deployment){
		"an image": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil:1" },
		"replicas": func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) },
		"a container": func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "evil", Image: "evil:1"})
		},
		"labels": func(d *appsv1.Deployment) { d.Labels = nil },
	} {
		want := f.deployment(exists)
		changed := want.DeepCopy()
		change(changed)
		require.NoError(t, f.Update(t.Context(), changed, client.FieldOwner("somebody")), name)
		f.deployment(func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Spec.Containers[0].Image == "rouse:1" && len(d.Spec.Template.Spec.Containers) == 1 &&
				*d.Spec.Replicas == 1 && d.Labels[resources.LabelManagedBy] == resources.ManagedBy
		})
	}
	config := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: f.namespace, Name: resources.ConfigName}
	require.NoError(t, f.Get(t.Context(), key, config))
	want := config.Data
	config.Data = map[string]string{"other": "x"}
	require.NoError(t, f.Update(t.Context(), config, client.FieldOwner("somebody")))
	require.Eventually(t, func() bool {
		fresh := &corev1.ConfigMap{}
		return f.Get(t.Context(), key, fresh) == nil && len(fresh.Data) == 1 && fresh.Data[resources.ConfigKey] == want[resources.ConfigKey]
	}, timeout, soon)

	binding := &rbacv1.ClusterRoleBinding{}
	require.NoError(t, f.Get(t.Context(), types.NamespacedName{Name: "rouse-functions"}, binding))
	binding.Subjects = nil
	require.NoError(t, f.Update(t.Context(), binding, client.FieldOwner("somebody")))
	require.Eventually(t, func() bool {
		fresh := &rbacv1.ClusterRoleBinding{}
		return f.Get(t.Context(), client.ObjectKeyFromObject(binding), fresh) == nil && len(fresh.Subjects) == 1
	}, timeout, soon)
}

func TestASecondServerlessSaysWhichOneIsServedAndTakesItsPlace(t *testing.T) {
	f := newFixture(t)
	f.start()
	first := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
	other := cluster.Environment(t).Namespace(t)
	f.create(other, operatorv1alpha1.ServerlessSpec{})
	status := f.status(other, hasState(operatorv1alpha1.StateWarning))
	require.Equal(t, []string{"Configured False ServerlessDuplicated only one instance of Serverless is allowed (current served instance: " +
		f.namespace + "/default) - this Serverless CR is redundant - remove it to fix the problem"}, shown(status.Conditions, "Configured", "Installed"))
	require.Equal(t, operatorv1alpha1.ServedFalse, status.Served)
	second := &operatorv1alpha1.Serverless{}
	require.NoError(t, f.Get(t.Context(), types.NamespacedName{Namespace: other, Name: "default"}, second))
	require.Empty(t, second.Finalizers, "it can be deleted at once")
	require.Contains(t, gitops.RequireInProgress(t, second), "remove it to fix the problem")

	require.NoError(t, f.Delete(t.Context(), first))
	f.until(func(ctx context.Context) bool {
		f.collect(ctx, f.namespace)
		return f.Get(ctx, types.NamespacedName{Namespace: other, Name: resources.DeploymentName}, &appsv1.Deployment{}) == nil
	}, "the second is served")
	status = f.status(other, hasState(operatorv1alpha1.StateProcessing))
	require.Equal(t, operatorv1alpha1.ServedTrue, status.Served)
}

func TestObjectsOfOthersAreLeftAsTheyAre(t *testing.T) {
	f := newFixture(t)
	f.start()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: resources.ConfigName}, Data: map[string]string{"a": "b"}}
	require.NoError(t, f.Create(t.Context(), config))
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	status := f.status(f.namespace, hasState(operatorv1alpha1.StateError))
	require.Equal(t, []string{"Installed False InstallationErr ConfigMap " + f.namespace + "/serverless-config exists already, and the operator has not " +
		"made it: it is left as it is. If it is Kyma's, stop Kyma's operator; then delete it, and the operator goes on"},
		shown(status.Conditions, "Installed"))
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(config), config))
	require.Equal(t, map[string]string{"a": "b"}, config.Data)
	require.NoError(t, f.Delete(t.Context(), config))
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
}

func TestOutsideOfItsNamespacesTheOperatorSaysWhatToDo(t *testing.T) {
	f := newFixture(t)
	f.installation.Namespaces = []string{cluster.Environment(t).Namespace(t)}
	f.start()
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	status := f.status(f.namespace, hasState(operatorv1alpha1.StateError))
	require.Equal(t, []string{"Configured False ConfigurationErr the operator does not work in namespace " + f.namespace + ": move this Serverless to " +
		"one of [" + f.installation.Namespaces[0] + "], or add the namespace to the chart's value operator.namespaces"},
		shown(status.Conditions, "Configured", "Installed"))
}

func TestTheResourceIsKymas(t *testing.T) {
	f := newFixture(t)
	env := cluster.Environment(t)
	kymas := envtest.Object(t, `
apiVersion: operator.kyma-project.io/v1alpha1
kind: Serverless
metadata: {name: all}
spec:
  tracing: {endpoint: ""}
  eventing: {endpoint: http://a/publish}
  functionRequeueDuration: 5m
  healthzLivenessTimeout: 10s
  defaultRuntimePodPreset: M
  logLevel: info
  logFormat: json
  dockerRegistry: {enableInternal: true, secretName: mine}
  targetCPUUtilizationPercentage: "50"
  functionBuildExecutorArgs: a,b
  functionBuildMaxSimultaneousJobs: "5"
  defaultBuildJobPreset: fast
  enableNetworkPolicies: false
`)
	kymas.SetNamespace(f.namespace)
	require.NoError(t, f.Create(t.Context(), kymas, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)))

	serverlesses := operatorv1alpha1.GroupVersion.WithResource("serverlesses")
	resource := env.Resource(t, serverlesses)
	require.Equal(t, []string{"kyma-modules", "kyma-serverless"}, resource.Categories)
	require.Empty(t, resource.ShortNames)
	var columns []string
	for _, column := range env.Table(t, serverlesses, f.namespace).ColumnDefinitions {
		columns = append(columns, column.Name)
	}
	require.Equal(t, []string{"Name", "Configured", "Installed", "generation", "age", "state"}, columns)

	bare := envtest.Object(t, "apiVersion: operator.kyma-project.io/v1alpha1\nkind: Serverless\nmetadata: {name: bare}\n")
	bare.SetNamespace(f.namespace)
	require.Contains(t, envtest.Causes(t, f.Create(t.Context(), bare, client.DryRunAll)), "spec: Required value")
	made := &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "new"}}
	require.NoError(t, f.Create(t.Context(), made))
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(made), made))
	require.NoError(t, f.Delete(t.Context(), made.DeepCopy()))
	require.Equal(t, int64(-1), made.Status.ObservedGeneration, "nobody has looked at it yet")
	gitops.RequireInProgress(t, made)
}
