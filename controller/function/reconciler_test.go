package function

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

// bench is a Reconciler on a fake client whose writes can be made to fail.
type bench struct {
	*Reconciler
	t        *testing.T
	applies  int
	failing  map[string]error // by kind
	refuses  func(kind string, object map[string]any) error
	recorder *events.FakeRecorder
	registry *prometheus.Registry
}

func newBench(t *testing.T, keda bool, objects ...client.Object) *bench {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	b := &bench{t: t, failing: map[string]error{}, recorder: events.NewFakeRecorder(100)}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "uid-of-shop"}})
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, each := range indexes() {
		builder.WithIndex(each.object, each.field, each.values)
	}
	c := builder.WithObjects(objects...).WithStatusSubresource(&v1alpha2.Function{}).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(object client.Object) []string {
			event, _ := object.(*corev1.Event)
			return []string{string(event.InvolvedObject.UID)}
		}).
		WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, inner client.WithWatch, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			b.applies++
			if object, ok := config.(interface{ GetKind() string }); ok && b.failing[object.GetKind()] != nil {
				return b.failing[object.GetKind()]
			}
			applied, ok := config.(interface {
				GetKind() string
				UnstructuredContent() map[string]any
			})
			if ok && b.refuses != nil {
				if err := b.refuses(applied.GetKind(), applied.UnstructuredContent()); err != nil {
					return err
				}
			}
			return inner.Apply(ctx, config, opts...)
		},
	}).Build()
	options := testOptions()
	b.registry = prometheus.NewRegistry()
	counted := newMetrics(b.registry)
	b.Reconciler = &Reconciler{
		metrics: counted, progress: newProgress(counted),
		client: c, live: c, applier: kube.NewApplier(c), recorder: b.recorder,
		clock: clocktesting.NewFakePassiveClock(noon()), settings: NewLive(options, false),
		rollouts:   newRollouts(func() int { return 2 }, clocktesting.NewFakeClock(noon())),
		registries: synchronousRegistries{images.NewResolver(c, c, registryOptions(), nil)},
		slots:      buildqueue.NewQueue(buildLimits(simultaneous), buildqueue.JobReader{Reader: c}, clocktesting.NewFakeClock(noon())),

		repositories: newFakeRepositories(), files: newFileDigests(),
	}
	b.keda.installed = func(context.Context) (bool, error) { return keda, nil }
	b.keda.scaledObject = untypedScaledObjects(c)
	return b
}

// synchronousRegistries query registries within the reconciliation.
type synchronousRegistries struct{ *images.Resolver }

func (synchronousRegistries) result(_ types.NamespacedName, asked query) (found, ready bool, err error) {
	found, err = asked.run(context.Background())
	return found, true, err
}

func (synchronousRegistries) forget(types.NamespacedName) {}

func (b *bench) reconcile() (ctrl.Result, error) {
	b.t.Helper()
	return b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "price"}})
}

func (b *bench) function() *v1alpha2.Function {
	b.t.Helper()
	fn := &v1alpha2.Function{}
	require.NoError(b.t, b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, fn))
	return fn
}

func TestAReconciliationWithoutChangesWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction(scaled(0, 3)))
	_, err := b.reconcile()
	require.NoError(t, err)
	require.Equal(t, 3, b.applies, "Deployment, Service and HPA")

	for range 2 { // the second one settles the status
		_, err = b.reconcile()
		require.NoError(t, err)
	}
	version := b.function().ResourceVersion
	result, err := b.reconcile()
	require.NoError(t, err)
	require.Zero(t, result)
	require.Equal(t, 3, b.applies)
	require.Equal(t, version, b.function().ResourceVersion)
}

func TestAFailedWriteIsAConditionOrARetry(t *testing.T) {
	t.Parallel()
	kind := schema.GroupKind{Kind: "x"}
	tests := map[string]struct {
		kind                      string
		err                       error
		wantCondition, wantReason string
		wantMessage               string
		wantTerminal              bool
		wantRequeue, wantErr      bool
	}{
		"an invalid Deployment stalls": {
			kind: "Deployment", err: apierrors.NewInvalid(kind, "price", nil), wantErr: true, wantTerminal: true,
			wantCondition: "Running", wantReason: "DeploymentFailed", wantMessage: "Deployment price create failed: ",
		},
		"a forbidden Deployment is explained and retried": {
			kind: "Deployment", err: apierrors.NewForbidden(schema.GroupResource{}, "price", errors.New("quota")), wantErr: true,
			wantCondition: "Running", wantReason: "DeploymentFailed", wantMessage: "quota",
		},
		"an unavailable webhook is explained and retried": {
			kind: "Deployment", err: apierrors.NewInternalError(errors.New("failed calling webhook")), wantErr: true,
			wantCondition: "Running", wantReason: "DeploymentFailed", wantMessage: "failed calling webhook",
		},
		"an invalid Service stalls": {
			kind: "Service", err: apierrors.NewInvalid(kind, "price", nil), wantErr: true, wantTerminal: true,
			wantCondition: "Running", wantReason: "ServiceFailed", wantMessage: "Service price create failed: ",
		},
		"a rejected ScaledObject is explained and retried": {
			kind: "ScaledObject", err: apierrors.NewForbidden(schema.GroupResource{}, "price", errors.New("webhook")), wantErr: true,
			wantCondition: "Scaling", wantReason: "ScaledObjectFailed", wantMessage: "webhook",
		},
		"a missing kind ScaledObject is awaited": {
			kind: "ScaledObject", err: apierrors.NewNotFound(schema.GroupResource{}, ""), wantRequeue: true,
			wantCondition: "Running", wantReason: "DeploymentCreated",
		},
		"a conflict is retried without an error": {
			kind: "Service", err: apierrors.NewConflict(schema.GroupResource{}, "price", errors.New("x")), wantRequeue: true,
		},
		"a timeout is retried without a condition": {
			kind: "Deployment", err: apierrors.NewTimeoutError("slow", 1), wantErr: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true, newFunction(scaled(0, 3)))
			b.failing[tc.kind] = tc.err
			result, err := b.reconcile()
			require.Equal(t, tc.wantErr, err != nil, "%v", err)
			require.Equal(t, tc.wantTerminal, errors.Is(err, reconcile.TerminalError(nil)))
			require.Equal(t, tc.wantRequeue, result.RequeueAfter > 0)

			fn := b.function()
			require.True(t, meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha2.ConditionConfigurationReady))
			if tc.wantCondition == "" {
				require.Len(t, fn.Status.Conditions, 2, "that and Ready")
				return
			}
			condition := meta.FindStatusCondition(fn.Status.Conditions, tc.wantCondition)
			require.NotNil(t, condition)
			require.Equal(t, tc.wantReason, condition.Reason)
			require.Contains(t, condition.Message, tc.wantMessage)
		})
	}
}

func TestEventsAreSentWhenAConditionChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction(func(fn *v1alpha2.Function) { fn.Spec.Runtime = "cobol" }))
	_, err := b.reconcile()
	require.Error(t, err)
	require.Contains(t, <-b.recorder.Events, "Warning InvalidFunctionSpec invalid source")
	_, err = b.reconcile()
	require.Error(t, err)
	require.Empty(t, b.recorder.Events, "an Event must not be repeated")
}

func TestTuningWithoutAScaleConfigIsIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t, true, newFunction(func(fn *v1alpha2.Function) {
		fn.Annotations = map[string]string{v1alpha2.AnnotationPollingInterval: "often"}
	}))
	_, err := b.reconcile()
	require.NoError(t, err)
	require.Equal(t, 2, b.applies, "Deployment and Service")
}

func TestAnHPAOfTheUserReplacesOurs(t *testing.T) {
	t.Parallel()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	hpa.Namespace, hpa.Name = "shop", "price"
	b := newBench(t, false, newFunction(scaled(0, 3)), hpa)
	_, err := b.reconcile()
	require.NoError(t, err)
	require.Equal(t, 2, b.applies, "Deployment and Service")
}

func TestWithoutKEDAAnHPAScalesByEventsToZeroWhereTheAPIServerAllowsThat(t *testing.T) {
	t.Parallel()
	for name, allowed := range map[string]bool{"it does": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, false, newFunction(scaled(0, 3)))
			b.settings.load().Scaling.ExternalMetrics = true
			refused := 0
			if !allowed {
				b.refuses = func(kind string, object map[string]any) error {
					if low, has, _ := unstructured.NestedInt64(object, "spec", "minReplicas"); kind != "HorizontalPodAutoscaler" || !has || low > 0 {
						return nil
					}
					refused++
					return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, "price", field.ErrorList{
						field.Invalid(field.NewPath("spec", "minReplicas"), 0, "must be greater than or equal to 1"),
					})
				}
			}
			for range 3 {
				_, err := b.reconcile()
				require.NoError(t, err)
			}
			hpa := &autoscalingv2.HorizontalPodAutoscaler{}
			require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, hpa))
			require.True(t, activation.ScalesByEvents(hpa))
			condition := meta.FindStatusCondition(b.function().Status.Conditions, v1alpha2.ConditionScaling)
			if allowed {
				require.Zero(t, *hpa.Spec.MinReplicas)
				require.Equal(t, metav1.ConditionTrue, condition.Status)
				require.Equal(t, "HorizontalPodAutoscaler price keeps 0 to 3 replicas by events; KEDA is not installed", condition.Message)
				return
			}
			require.Equal(t, int32(1), *hpa.Spec.MinReplicas)
			require.Equal(t, 1, refused, "it is asked once an hour")
			require.Equal(t, metav1.ConditionFalse, condition.Status)
			require.Contains(t, condition.Message, "enable the feature gate HPAScaleToZero")
		})
	}
}

func TestUsersHPAReplacesOurs(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction(scaled(0, 3)))
	_, err := b.reconcile()
	require.NoError(t, err)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, hpa))

	require.NoError(t, b.client.Create(t.Context(), userHPA("shop", "mine")))
	for range 2 {
		_, err = b.reconcile()
		require.NoError(t, err)
	}
	err = b.client.Get(t.Context(), client.ObjectKeyFromObject(hpa), hpa)
	require.True(t, apierrors.IsNotFound(err), "two would block each other")
}

func TestADeletedFunctionIsNotReconciled(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction(func(fn *v1alpha2.Function) { fn.Finalizers = []string{"x/y"} }))
	require.NoError(t, b.client.Delete(t.Context(), b.function()))
	result, err := b.reconcile()
	require.NoError(t, err)
	require.Zero(t, result)
	require.Zero(t, b.applies)
}

func TestATerminatingNamespaceIsNotReconciled(t *testing.T) {
	t.Parallel()
	t.Run("when the cache shows it", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, true, newFunction(scaled(0, 3)))
		namespace := &corev1.Namespace{}
		require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Name: "shop"}, namespace))
		namespace.Finalizers = []string{"example.com/kubernetes"}
		require.NoError(t, b.client.Update(t.Context(), namespace))
		require.NoError(t, b.client.Delete(t.Context(), namespace))
		result, err := b.reconcile()
		require.NoError(t, err)
		require.Zero(t, result)
		require.Zero(t, b.applies)
		require.Empty(t, b.recorder.Events)
		require.Empty(t, b.function().Status.Conditions)
	})
	refused := apierrors.NewForbidden(schema.GroupResource{}, "price", errors.New("namespace is being terminated"))
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, kind := range []string{"Deployment", "Service", "ScaledObject"} {
		t.Run("when only the API server reports it for the "+kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true, newFunction(scaled(0, 3)))
			b.failing[kind] = refused
			result, err := b.reconcile()
			require.NoError(t, err)
			require.Zero(t, result)
			require.Empty(t, b.recorder.Events)
			require.Empty(t, b.function().Status.Conditions)
		})
	}
	t.Run("when only the API server reports it for a build", func(t *testing.T) {
		t.Parallel()
		err := explain(refused, v1alpha2.ConditionBuildReady, v1alpha2.ReasonJobFailed, "no Job")
		require.Nil(t, failureOf(err), "it is no failure of the build")
		require.ErrorIs(t, err, refused)
	})
}

func TestMissingMountedSecretsAreReported(t *testing.T) {
	t.Parallel()
	fn := newFunction(func(fn *v1alpha2.Function) {
		fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "there", MountPath: "/a"}, {SecretName: "missing", MountPath: "/b"}}
	})
	b := newBench(t, false, fn, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "there"}})
	s := &scope{fn: fn, settings: b.settings.load().Settings}
	require.NoError(t, b.gather(t.Context(), s))
	require.Equal(t, []v1alpha2.SecretMount{{SecretName: "missing", MountPath: "/b"}}, s.missingSecrets)
}

func TestObjectsOfThePredecessorAreAwaited(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction())
	_, err := b.reconcile()
	require.NoError(t, err)

	deployment := &appsv1.Deployment{}
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, deployment))
	deployment.OwnerReferences[0].UID = "uid-of-the-one-before"
	require.NoError(t, b.client.Update(t.Context(), deployment))
	result, err := b.reconcile()
	require.NoError(t, err)
	require.InDelta(t, predecessorDelay, result.RequeueAfter, float64(predecessorDelay)/5+1)
	require.Equal(t, 2, b.applies)
}

func TestTheCacheHoldsNoSourceCode(t *testing.T) {
	t.Parallel()
	spec := corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "FUNC_HANDLER_SOURCE"}}}}}
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
	_, err := withoutPodSpec(deployment)
	require.NoError(t, err)
	require.Empty(t, deployment.Spec.Template.Spec)
	pod := &corev1.Pod{Spec: spec}
	_, err = withoutPodSpec(pod)
	require.NoError(t, err)
	require.Empty(t, pod.Spec)
}

func TestResultRequeuesWhenAConditionExpires(t *testing.T) {
	t.Parallel()
	outcome, err := result(nil, time.Second)
	require.NoError(t, err)
	require.Equal(t, time.Second, outcome.RequeueAfter)
	outcome, err = result(kube.Waiting(kube.ErrNoKEDA, time.Minute), time.Second)
	require.NoError(t, err)
	require.GreaterOrEqual(t, outcome.RequeueAfter, time.Minute)
}

// writing counts writes, and can reject applies.
type writing struct {
	client.Client
	writes  int
	refused error
}

func (w *writing) Apply(ctx context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if w.writes++; w.refused != nil {
		return w.refused
	}
	return w.Client.Apply(ctx, config, options...)
}

func (w *writing) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	w.writes++
	return w.Client.Patch(ctx, object, patch, options...)
}

// child is an object of a Function, with foreign changes to it.
type child struct {
	desired   *unstructured.Unstructured
	exclusive []kube.Part
	// change changes a field of ours, and add adds a field without an owner to an exclusive part, if there is one.
	change, add func(map[string]any)
}

// restart applies the child as a new process does. It returns the number of writes.
func (c *child) restart(t *testing.T, w *fixture, refused error) (int, error) {
	t.Helper()
	live := &metav1.PartialObjectMetadata{} // for some kinds caches hold only metadata
	live.SetGroupVersionKind(c.desired.GroupVersionKind())
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(c.desired), live))
	through := &writing{Client: w.Client, refused: refused}
	_, err := kube.NewApplier(through).Apply(t.Context(), c.desired, live, c.exclusive...)
	return through.writes, err
}

func (c *child) live(t *testing.T, w *fixture) *unstructured.Unstructured {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(c.desired.GroupVersionKind())
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(c.desired), live))
	return live
}

func (c *child) edit(t *testing.T, w *fixture, change func(map[string]any)) {
	t.Helper()
	live := c.live(t, w)
	change(live.Object)
	require.NoError(t, w.Update(t.Context(), live, client.FieldOwner("kubectl-edit")))
}

func at(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		if items, ok := object[name].([]any); ok {
			object, _ = items[0].(map[string]any)
			continue
		}
		object, _ = object[name].(map[string]any)
	}
	return object
}

func set(value any, path ...string) func(map[string]any) {
	return func(object map[string]any) { at(object, path[:len(path)-1]...)[path[len(path)-1]] = value }
}

func children(t *testing.T, fn *v1alpha2.Function) map[string]*child {
	t.Helper()
	options := testOptions()
	settings := options.settings()
	code := resources.Code{Source: "Zmlyc3Q=", Runtime: fn.Spec.Runtime, Image: "runtime:1"}
	deployment, err := resources.Deployment(fn, settings, resources.Workload{Code: code, Replicas: new(int32(2))})
	require.NoError(t, err)
	unstructuredOf := func(config any) *unstructured.Unstructured {
		object, err := kube.ToUnstructured(config)
		require.NoError(t, err)
		return object
	}
	return map[string]*child{
		"Deployment": {
			desired: unstructuredOf(deployment), exclusive: []kube.Part{kube.Exclusive{"spec", "template", "spec"}},
			change: set("theirs:1", "spec", "template", "spec", "containers", "image"),
			add:    set("theirs", "spec", "template", "spec", "nodeName"),
		},
		"Service": {
			desired: unstructuredOf(resources.Service(fn)), exclusive: []kube.Part{kube.Exclusive{"spec"}},
			change: set(int64(9999), "spec", "ports", "targetPort"),
			add:    set([]any{"192.0.2.7"}, "spec", "externalIPs"),
		},
		"ScaledObject": {
			desired: resources.ScaledObject(fn, settings.Scaling, settings.Scaling.Defaults, nil, true), exclusive: []kube.Part{kube.Exclusive{"spec"}},
			change: set(int64(77), "spec", "maxReplicaCount"),
			add:    set(int64(7), "spec", "idleReplicaCount"),
		},
		"HorizontalPodAutoscaler": {
			desired: unstructuredOf(resources.CPUAutoscaler(fn)),
			change:  set(int64(77), "spec", "maxReplicas"),
		},
		"Secret": {
			desired: unstructuredOf(resources.RegistrySecret(fn, []byte(`{"auths":{}}`))), exclusive: []kube.Part{kube.Exclusive{"data"}},
			change: set("e30=", "data", ".dockerconfigjson"),
			add:    set("e30=", "data", "more"),
		},
	}
}

const noManagedFields = "managed fields are reset"

// The next controller has to find foreign changes made while no controller runs, without writing every object again.
func TestRestartWritesOnlyObjectsWithForeignChanges(t *testing.T) {
	w := newFixture(t)
	fn := w.create(scaled(0, 5))
	t.Cleanup(func() { forgetFunctions(t) })
	for kind, c := range children(t, fn) {
		_, err := kube.NewApplier(w.Client).Apply(t.Context(), c.desired, nil, c.exclusive...)
		require.NoError(t, err, kind)
		applied := c.live(t, w)
		unchanged := func(what string) {
			t.Helper()
			writes, err := c.restart(t, w, nil)
			require.NoError(t, err, "%s: %s", kind, what)
			require.Zero(t, writes, "%s: %s, the next process must not write", kind, what)
			require.Equal(t, applied.Object["spec"], c.live(t, w).Object["spec"], "%s: %s", kind, what)
			require.Equal(t, applied.Object["data"], c.live(t, w).Object["data"], "%s: %s", kind, what)
			require.Equal(t, applied.GetLabels(), c.live(t, w).GetLabels(), "%s: %s", kind, what)
		}
		unchanged("it is as it was applied")
		c.edit(t, w, set("theirs", "metadata", "annotations", "their.own/note"))
		unchanged("others may annotate it")

		for what, change := range map[string]func(map[string]any){
			"a value was changed":   c.change,
			"a label was removed":   func(object map[string]any) { delete(at(object, "metadata", "labels"), v1alpha2.LabelUUID) },
			"a label was changed":   set("theirs", "metadata", "labels", v1alpha2.LabelUUID),
			"the owner was removed": func(object map[string]any) { delete(at(object, "metadata"), "ownerReferences") },
			"a field was added":     c.add,
			"the mark was removed":  func(object map[string]any) { delete(at(object, "metadata", "annotations"), kube.AnnotationApplied) },
			"the mark was changed":  set("0123", "metadata", "annotations", kube.AnnotationApplied),
			noManagedFields:         set([]any{map[string]any{}}, "metadata", "managedFields"),
		} {
			if change == nil {
				continue
			}
			c.edit(t, w, change)
			writes, err := c.restart(t, w, nil)
			require.NoError(t, err, "%s: %s", kind, what)
			require.NotZero(t, writes, "%s: %s", kind, what)
			if what == noManagedFields { // the API server treats the present fields as another owner's until they are reclaimed
				_, err := c.restart(t, w, nil)
				require.NoError(t, err, "%s: %s", kind, what)
			}
			unchanged(what)
		}

		if c.add != nil { // a process may claim foreign additions and end before it removes them
			c.edit(t, w, c.add)
			_, err = c.restart(t, w, errors.New("killed"))
			require.ErrorContains(t, err, "killed", kind)
			writes, err := c.restart(t, w, nil)
			require.NoError(t, err, kind)
			require.NotZero(t, writes, "%s: claimed additions must be removed", kind)
			unchanged("the addition must be removed")
		}

		// Restore the mark after a change.
		marked := c.live(t, w).GetAnnotations()[kube.AnnotationApplied]
		c.edit(t, w, c.change)
		c.edit(t, w, set(marked, "metadata", "annotations", kube.AnnotationApplied))
		writes, err := c.restart(t, w, nil)
		require.NoError(t, err, kind)
		require.NotZero(t, writes, "%s: the mark alone must not suffice", kind)
		unchanged("a forged mark")

		c.desired.SetLabels(map[string]string{"team": "prices"})
		writes, err = c.restart(t, w, nil)
		require.NoError(t, err, kind)
		require.NotZero(t, writes, "%s: a changed desired state must be written", kind)
	}
}
