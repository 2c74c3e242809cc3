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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/kube"
)

// bench is a Reconciler on a fake client whose writes can be made to fail.
type bench struct {
	*Reconciler
	t        *testing.T
	applies  int
	failing  map[string]error // by kind
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
		registries: images.NewResolver(c, c, registryOptions(), nil),
		slots:      buildqueue.NewQueue(buildLimits(simultaneous), buildqueue.JobReader{Reader: c}, clocktesting.NewFakeClock(noon())),

		repositories: newFakeRepositories(),
		images:       askedInPlace{},
	}
	b.keda.installed = func(context.Context) (bool, error) { return keda, nil }
	b.keda.scaledObject = untypedScaledObjects(c)
	return b
}

// askedInPlace are registries that answer at once.
type askedInPlace struct{}

func (askedInPlace) Answer(_ types.NamespacedName, question Question[bool]) (found, answered bool, err error) {
	found, err = question.Ask(context.Background())
	return found, true, err
}

func (askedInPlace) Forget(types.NamespacedName) {}

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
		"a forbidden Deployment is explained and tried again": {
			kind: "Deployment", err: apierrors.NewForbidden(schema.GroupResource{}, "price", errors.New("quota")), wantErr: true,
			wantCondition: "Running", wantReason: "DeploymentFailed", wantMessage: "quota",
		},
		"a webhook that does not answer is explained and tried again": {
			kind: "Deployment", err: apierrors.NewInternalError(errors.New("failed calling webhook")), wantErr: true,
			wantCondition: "Running", wantReason: "DeploymentFailed", wantMessage: "failed calling webhook",
		},
		"an invalid Service stalls": {
			kind: "Service", err: apierrors.NewInvalid(kind, "price", nil), wantErr: true, wantTerminal: true,
			wantCondition: "Running", wantReason: "ServiceFailed", wantMessage: "Service price create failed: ",
		},
		"a refused ScaledObject is explained and tried again": {
			kind: "ScaledObject", err: apierrors.NewForbidden(schema.GroupResource{}, "price", errors.New("webhook")), wantErr: true,
			wantCondition: "Scaling", wantReason: "ScaledObjectFailed", wantMessage: "webhook",
		},
		"a ScaledObject that is not served yet is waited for": {
			kind: "ScaledObject", err: apierrors.NewNotFound(schema.GroupResource{}, ""), wantRequeue: true,
			wantCondition: "Running", wantReason: "DeploymentCreated",
		},
		"a conflict is tried again without an error": {
			kind: "Service", err: apierrors.NewConflict(schema.GroupResource{}, "price", errors.New("x")), wantRequeue: true,
		},
		"a timeout is tried again without a word": {
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
	require.Empty(t, b.recorder.Events, "nothing is said twice")
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

func TestOurHPAMakesWayForTheUsers(t *testing.T) {
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

func TestAFunctionThatIsGoingIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction(func(fn *v1alpha2.Function) { fn.Finalizers = []string{"x/y"} }))
	require.NoError(t, b.client.Delete(t.Context(), b.function()))
	result, err := b.reconcile()
	require.NoError(t, err)
	require.Zero(t, result)
	require.Zero(t, b.applies)
}

func TestNothingIsDoneInANamespaceThatEnds(t *testing.T) {
	t.Parallel()
	t.Run("as soon as that is known", func(t *testing.T) {
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
		t.Run("when the API server is the first to say so of the "+kind, func(t *testing.T) {
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
	t.Run("when the API server is the first to say so of a build", func(t *testing.T) {
		t.Parallel()
		err := explain(refused, v1alpha2.ConditionBuildReady, v1alpha2.ReasonJobFailed, "no Job")
		require.Nil(t, failureOf(err), "it is no failure of the build")
		require.ErrorIs(t, err, refused)
	})
}

func TestMountedSecretsThatAreMissingAreNamed(t *testing.T) {
	t.Parallel()
	fn := newFunction(func(fn *v1alpha2.Function) {
		fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "there", MountPath: "/a"}, {SecretName: "missing", MountPath: "/b"}}
	})
	b := newBench(t, false, fn, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "there"}})
	s := &scope{fn: fn, settings: b.settings.load().Settings}
	require.NoError(t, b.gather(t.Context(), s))
	require.Equal(t, []string{"missing"}, s.missingSecrets)
}

func TestObjectsOfThePredecessorAreWaitedFor(t *testing.T) {
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
	outcome, err = result(kube.Waiting(errNoKEDA, time.Minute), time.Second)
	require.NoError(t, err)
	require.GreaterOrEqual(t, outcome.RequeueAfter, time.Minute)
}
