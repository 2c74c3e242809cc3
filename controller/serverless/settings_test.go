package serverless

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

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

func TestACollectorOfTracesInTheClusterIsFoundAndForgotten(t *testing.T) {
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

func TestANodeThatComesChangesNoPreset(t *testing.T) {
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

func TestValuesWithoutASenseLeaveInForceWhatWasBefore(t *testing.T) {
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

func TestAServerSideApplyMayTakeTheLastFieldOut(t *testing.T) {
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
