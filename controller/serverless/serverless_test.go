package serverless

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestAServerlessInstallsAndRemovesTheFunctionController(t *testing.T) {
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

func TestForeignChangesAndDeletionsOfPartsAreRepaired(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))

	for _, part := range resources.Parts(f.namespace, f.installation) {
		if part.Kind == resources.KindLease {
			continue // belongs to its holder
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

func TestASecondServerlessNamesTheServedOneAndReplacesItLater(t *testing.T) {
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

func TestForeignObjectsStayUnchanged(t *testing.T) {
	f := newFixture(t)
	f.start()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: resources.ConfigName}, Data: map[string]string{"a": "b"}}
	require.NoError(t, f.Create(t.Context(), config))
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	status := f.status(f.namespace, hasState(operatorv1alpha1.StateError))
	require.Equal(t, []string{"Installed False InstallationErr ConfigMap " + f.namespace + "/serverless-config exists already and was not created " +
		"by the operator, which does not change it. If it is Kyma's, stop Kyma's operator; then delete it, and the operator continues"},
		shown(status.Conditions, "Installed"))
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(config), config))
	require.Equal(t, map[string]string{"a": "b"}, config.Data)
	require.NoError(t, f.Delete(t.Context(), config))
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
}

func TestAServerlessInAnotherNamespaceNamesTheRemedy(t *testing.T) {
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
	require.Equal(t, int64(-1), made.Status.ObservedGeneration, "it has not been reconciled yet")
	gitops.RequireInProgress(t, made)
}

func TestEveryFieldOfAServerlessTakesEffectWhenItChanges(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
	for name, tc := range map[string]struct {
		change func(*operatorv1alpha1.ServerlessSpec)
		file   string
	}{
		"eventing": {
			func(s *operatorv1alpha1.ServerlessSpec) {
				s.Eventing = &operatorv1alpha1.Endpoint{Endpoint: "http://other/publish"}
			},
			`functionPublisherProxyAddress: http://other/publish`,
		},
		"tracing": {
			func(s *operatorv1alpha1.ServerlessSpec) {
				s.Tracing = &operatorv1alpha1.Endpoint{Endpoint: "http://collector:4318"}
			},
			`functionTraceCollectorEndpoint: http://collector:4318`,
		},
		"requeue":  {func(s *operatorv1alpha1.ServerlessSpec) { s.FunctionRequeueDuration = "2m" }, `functionReadyRequeueDuration: 2m`},
		"liveness": {func(s *operatorv1alpha1.ServerlessSpec) { s.HealthzLivenessTimeout = "7s" }, `healthzLivenessTimeout: 7s`},
		"preset":   {func(s *operatorv1alpha1.ServerlessSpec) { s.DefaultRuntimePodPreset = "S" }, `defaultPreset: S`},
		"level":    {func(s *operatorv1alpha1.ServerlessSpec) { s.LogLevel = "debug" }, `logLevel: debug`},
		"format":   {func(s *operatorv1alpha1.ServerlessSpec) { s.LogFormat = "console" }, `logFormat: console`},
	} {
		fresh := &operatorv1alpha1.Serverless{}
		require.Eventually(t, func() bool {
			require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(one), fresh))
			tc.change(&fresh.Spec)
			return f.Update(t.Context(), fresh) == nil
		}, timeout, soon, name)
		require.Eventually(t, func() bool {
			config, logs := &corev1.ConfigMap{}, &corev1.ConfigMap{}
			require.NoError(t, f.Get(t.Context(), types.NamespacedName{Namespace: f.namespace, Name: resources.ConfigName}, config))
			require.NoError(t, f.Get(t.Context(), types.NamespacedName{Namespace: f.namespace, Name: resources.LogConfigName}, logs))
			return strings.Contains(config.Data[resources.ConfigKey]+logs.Data[resources.LogConfigKey], tc.file)
		}, timeout, soon, name)
	}
	f.status(f.namespace, func(s *operatorv1alpha1.ServerlessStatus) bool {
		return s.EventingEndpoint == "http://other/publish" && s.TracingEndpoint == "http://collector:4318" && s.FunctionRequeueDuration == "2m" &&
			s.HealthzLivenessTimeout == "7s" && s.DefaultRuntimePodPreset == "S" && s.LogLevel == "debug" && s.LogFormat == "console"
	})
	f.event("Log format set from 'json' to 'console'")
}

func TestTheOperatorFollowsATraceCollectorInTheCluster(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.status(f.namespace, func(s *operatorv1alpha1.ServerlessStatus) bool {
		return s.EventingEndpoint != "" && s.TracingEndpoint == ""
	})
	collector := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "telemetry-otlp-traces"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 4318}}},
	}
	require.NoError(t, f.Create(t.Context(), collector))
	f.status(f.namespace, func(s *operatorv1alpha1.ServerlessStatus) bool {
		return s.TracingEndpoint == "http://telemetry-otlp-traces."+f.namespace+".svc.cluster.local:4318/v1/traces"
	})
	require.NoError(t, f.Delete(t.Context(), collector))
	f.status(f.namespace, func(s *operatorv1alpha1.ServerlessStatus) bool { return s.TracingEndpoint == "" })
}

func TestNoTenantGetsTheTracesOfAllFunctions(t *testing.T) {
	f := newFixture(t)
	tenant := cluster.Environment(t).Namespace(t)
	collector := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "telemetry-otlp-traces"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 4318}}},
	}
	require.NoError(t, f.Create(t.Context(), collector))
	f.start()
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	require.Empty(t, f.status(f.namespace, hasState(operatorv1alpha1.StateReady)).TracingEndpoint)
}

func TestAddingANodeKeepsTheDefaultPreset(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.status(f.namespace, func(s *operatorv1alpha1.ServerlessStatus) bool { return s.DefaultRuntimePodPreset == "XS" })
	for _, name := range []string{"a", "b", "c"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-" + name}}
		require.NoError(t, f.Create(t.Context(), node))
		t.Cleanup(func() { require.NoError(t, f.Delete(context.Background(), node)) })
	}
	f.rollOut() // which is looked at
	require.Equal(t, "XS", f.status(f.namespace, hasState(operatorv1alpha1.StateReady)).DefaultRuntimePodPreset)
	one := &operatorv1alpha1.Serverless{}
	require.NoError(t, f.Get(t.Context(), types.NamespacedName{Namespace: f.namespace, Name: "default"}, one))
	require.NoError(t, f.Patch(t.Context(), one, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"logLevel":"warn"}}`))))
	f.status(f.namespace, func(s *operatorv1alpha1.ServerlessStatus) bool { return s.DefaultRuntimePodPreset == "L" })
}

func TestInvalidServerlessValuesKeepThePreviousSettings(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{LogLevel: "warn"})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))
	require.Eventually(t, func() bool {
		fresh := &operatorv1alpha1.Serverless{}
		require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(one), fresh))
		fresh.Spec.LogLevel = "loud"
		return f.Update(t.Context(), fresh) == nil
	}, timeout, soon)
	status := f.status(f.namespace, hasState(operatorv1alpha1.StateError))
	require.Equal(t, []string{
		`Configured False ConfigurationErr spec.logLevel "loud" is not known: use one of debug, info, warn, error, fatal`,
		"Installed True Installed Serverless installed",
	}, shown(status.Conditions, "Configured", "Installed"))
	require.Equal(t, `spec.logLevel "loud" is not known: use one of debug, info, warn, error, fatal`, gitops.RequireFailed(t, f.live(one)))
	require.Equal(t, "warn", status.LogLevel)
	require.Equal(t, "Warning", f.event(`spec.logLevel "loud" is not known: use one of debug, info, warn, error, fatal`).Type)

	live := f.deployment(exists) // and it is still repaired
	require.NoError(t, f.Delete(t.Context(), live.DeepCopy()))
	f.deployment(func(d *appsv1.Deployment) bool { return d.UID != live.UID })
}

func TestServerSideApplyMayRemoveTheLastField(t *testing.T) {
	f := newFixture(t)
	f.start()
	apply := func(spec string) {
		t.Helper()
		text := `{"apiVersion":"operator.kyma-project.io/v1alpha1","kind":"Serverless","spec":` + spec + `}`
		one := &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "default"}}
		require.NoError(t, f.Patch(t.Context(), one, client.RawPatch(types.ApplyPatchType, []byte(text)), client.FieldOwner("git")))
	}
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	apply(`{"logLevel":"warn"}`)
	f.status(f.namespace, func(s *operatorv1alpha1.ServerlessStatus) bool { return s.LogLevel == "warn" })
	apply(`{}`)
	f.status(f.namespace, func(s *operatorv1alpha1.ServerlessStatus) bool { return s.LogLevel == "info" })
	require.Equal(t, operatorv1alpha1.ServerlessSpec{}, f.live(one).Spec)
}

func TestDeletedServerlessWaitsForTheLastFunction(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))
	fn := f.function()
	require.NoError(t, f.Delete(t.Context(), one))
	status := f.status(f.namespace, hasState(operatorv1alpha1.StateWarning))
	require.Equal(t, []string{
		"Deleted False DeletionErr found 1 items with VersionKind serverless.kyma-project.io/v1alpha2",
		"Ready False DeletionErr found 1 items with VersionKind serverless.kyma-project.io/v1alpha2: " +
			"delete these Functions first, kubectl get functions -A lists them",
	}, shown(status.Conditions, "Deleted", "Ready"))

	live := f.deployment(exists)
	require.NoError(t, f.Delete(t.Context(), live.DeepCopy()))
	f.deployment(func(d *appsv1.Deployment) bool { return d.UID != live.UID })

	require.NoError(t, f.Delete(t.Context(), fn))
	f.until(func(ctx context.Context) bool {
		f.collect(ctx, f.namespace)
		return apierrors.IsNotFound(f.Get(ctx, client.ObjectKeyFromObject(one), &operatorv1alpha1.Serverless{}))
	}, "it goes")
	require.NoError(t, f.List(t.Context(), &serverlessv1alpha2.FunctionList{}), "the CRD of Functions stays")
}

func TestAServerlessWithoutItsFinalizerLeavesNothing(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))
	fn := f.function()
	t.Cleanup(func() { require.NoError(t, f.Delete(context.Background(), fn)) })
	require.NoError(t, f.Delete(t.Context(), one))
	f.status(f.namespace, hasState(operatorv1alpha1.StateWarning))
	require.NoError(t, f.Patch(t.Context(), one, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	f.until(func(ctx context.Context) bool {
		f.collect(ctx, f.namespace)
		for _, part := range resources.Parts(f.namespace, f.installation) {
			if !apierrors.IsNotFound(f.Get(ctx, part.Key, metadataOf(part.Kind))) {
				return false
			}
		}
		return true
	}, "its parts go")
}

func TestARecreatedLeaseIsRemoved(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
	lock := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: resources.LeaseName}}
	f.until(func(ctx context.Context) bool { // the controller may be faster
		_ = f.Delete(ctx, lock.DeepCopy())
		return f.Create(ctx, lock.DeepCopy(), client.FieldOwner("holder")) == nil
	}, "its holder creates it again")
	require.NoError(t, f.Delete(t.Context(), one))
	f.until(func(ctx context.Context) bool {
		f.collect(ctx, f.namespace)
		return apierrors.IsNotFound(f.Get(ctx, client.ObjectKeyFromObject(one), &operatorv1alpha1.Serverless{}))
	}, "it goes")
	require.True(t, apierrors.IsNotFound(f.Get(t.Context(), client.ObjectKeyFromObject(lock), lock)))
}

func TestUninstallRemovesThePartsAndKeepsTheServerless(t *testing.T) {
	f := newFixture(t)
	stop := f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))
	stop()
	left := make(chan error, 1)
	go func() { left <- Leave(context.Background(), f.Client, f.installation.Binding) }()
	require.Eventually(t, func() bool {
		f.collect(t.Context(), f.namespace)
		select {
		case err := <-left:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	}, timeout, soon)
	for _, part := range resources.Parts(f.namespace, f.installation) {
		require.True(t, apierrors.IsNotFound(f.Get(t.Context(), part.Key, metadataOf(part.Kind))), "%s %s", part.Kind.Kind, part.Key)
	}
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(one), one))
	require.Empty(t, one.Finalizers)
}

func TestAnUnservedServerlessWithAFinalizerIsDeleted(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
	fn := f.function()
	other := cluster.Environment(t).Namespace(t)
	second := &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{
		Namespace: other, Name: "default", Finalizers: []string{operatorv1alpha1.Finalizer},
	}}
	require.NoError(t, f.Create(t.Context(), second))
	f.status(other, hasState(operatorv1alpha1.StateWarning))
	require.NoError(t, f.Delete(t.Context(), second))
	f.until(func(ctx context.Context) bool {
		return apierrors.IsNotFound(f.Get(ctx, client.ObjectKeyFromObject(second), &operatorv1alpha1.Serverless{}))
	}, "it waits for no Function")
	for _, part := range resources.Parts(f.namespace, f.installation) {
		require.NoError(t, f.Get(t.Context(), part.Key, metadataOf(part.Kind)), "parts of the served Serverless must stay")
	}
	require.NoError(t, f.Delete(t.Context(), fn))
}
