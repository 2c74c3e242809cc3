package wake

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/never"
)

const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
)

var cluster = envtest.New(envtest.WithKEDA())

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m))
}

// announced is an announcement of the scaler.
type announced struct {
	function types.NamespacedName
	replicas int
}

type announcements chan announced

// WatchWanted implements Announcements.
func (a announcements) WatchWanted(ctx context.Context, apply func(types.NamespacedName, int)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case one := <-a:
			apply(one.function, one.replicas)
		}
	}
}

// fixture is a namespace with a controller.
type fixture struct {
	client.Client
	t         *testing.T
	namespace string
	scaler    announcements
	metrics   *prometheus.Registry

	reconciler *Reconciler
}

func start(t *testing.T) *fixture {
	t.Helper()
	return startWith(t, func(cached client.Reader) client.Reader { return cached })
}

// withoutKEDA is the cache of a cluster without KEDA.
type withoutKEDA struct{ client.Reader }

func (r withoutKEDA) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key.Name == kube.ScaledObjectCRD {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name)
	}
	return r.Reader.Get(ctx, key, object, options...)
}

func startWith(t *testing.T, cached func(client.Reader) client.Reader) *fixture {
	t.Helper()
	environment := cluster.Environment(t)
	w := &fixture{
		Client: environment.Client, t: t, namespace: environment.Namespace(t), scaler: make(announcements), metrics: prometheus.NewRegistry(),
	}
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	require.NoError(t, err)
	w.reconciler, err = setup(mgr, w.scaler, w.metrics)
	require.NoError(t, err)
	w.reconciler.cached = cached(w.reconciler.cached)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

// function creates a Function that may sleep, with its Deployment and its ScaledObject.
func (w *fixture) function(name string, replicas int32) types.NamespacedName {
	w.t.Helper()
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha2.FunctionSpec{
			Runtime:     v1alpha2.RuntimeNodeJS22,
			ScaleConfig: &v1alpha2.ScaleConfig{MinReplicas: new(int32(0)), MaxReplicas: new(int32(5))},
			Source:      v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "module.exports = { main: () => 'ok' }"}},
		},
	}
	require.NoError(w.t, w.Create(w.t.Context(), fn))
	owner := *metav1.NewControllerRef(fn, v1alpha2.GroupVersion.WithKind("Function"))
	w.deployment(name, replicas, owner)
	scaled := w.kedaObject(name, nil)
	scaled.SetOwnerReferences([]metav1.OwnerReference{owner})
	require.NoError(w.t, w.Create(w.t.Context(), scaled))
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

func (w *fixture) deployment(name string, replicas int32, owners ...metav1.OwnerReference) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	require.NoError(w.t, w.Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, OwnerReferences: owners},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: podsWith(labels),
		},
	}))
}

func podsWith(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "x"}}},
	}
}

func (w *fixture) kedaObject(name string, annotations map[string]string) *unstructured.Unstructured {
	return envtest.ScaledObject(w.namespace, name, annotations)
}

// announce announces every few milliseconds, as the scaler does every second, until the function returns true.
func (w *fixture) announce(function types.NamespacedName, replicas int, until func() bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		w.scaler <- announced{function, replicas}
		return until()
	}, timeout, tick)
}

func (w *fixture) replicas(name string) int32 {
	w.t.Helper()
	deployment := &appsv1.Deployment{}
	require.NoError(w.t, w.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, deployment))
	return *deployment.Spec.Replicas
}

// scale sets the replicas as KEDA and the HPA do.
func (w *fixture) scale(name string, replicas int32) {
	w.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	require.NoError(w.t, w.SubResource("scale").Update(w.t.Context(), deployment,
		client.WithSubResourceBody(&autoscalingv1.Scale{ObjectMeta: deployment.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}})))
}

// requireCounts waits for the counts, which follow the writes.
func (w *fixture) requireCounts(backlog, kedaLate int) {
	w.t.Helper()
	w.requireAllCounts(backlog, kedaLate, 0)
}

func (w *fixture) requireAllCounts(backlog, kedaLate, noKEDA int) {
	w.t.Helper()
	want := fmt.Sprintf(`
# HELP rouse_controller_wakes_total %s
# TYPE rouse_controller_wakes_total counter
rouse_controller_wakes_total{reason="backlog"} %d
rouse_controller_wakes_total{reason="keda_late"} %d
rouse_controller_wakes_total{reason="no_keda"} %d
`, wakesHelp, backlog, kedaLate, noKEDA)
	require.Eventually(w.t, func() bool { return testutil.GatherAndCompare(w.metrics, strings.NewReader(want)) == nil }, timeout, tick)
}

func TestTheReplicasOfALargeBacklogAreSetOnceKEDAHasWokenTheFunction(t *testing.T) {
	t.Parallel()
	w := start(t)
	function := w.function("pricing", 0)
	w.scaler <- announced{function, 4}
	w.scale("pricing", 1) // as KEDA
	w.announce(function, 4, func() bool { return w.replicas("pricing") == 4 })
	w.announce(function, 40, func() bool { return w.replicas("pricing") == 5 }) // maxReplicas

	w.scale("pricing", 2) // as the HPA
	w.scaler <- announced{function, 40}
	never.Happens(t, func() bool { return w.replicas("pricing") != 2 }, 300*time.Millisecond, tick, "what the HPA has decided stays")
	w.requireCounts(2, 0)
}

func TestAFunctionThatKEDADoesNotWakeIsWoken(t *testing.T) {
	t.Parallel()
	w := start(t)
	function := w.function("pricing", 0)
	began := time.Now()
	w.announce(function, 1, func() bool { return w.replicas("pricing") == 1 })
	require.GreaterOrEqual(t, time.Since(began), gracePeriod)
	w.requireCounts(0, 1)
	w.awaitKEDALate("Function", "pricing")
}

func TestWithoutKEDAAFunctionIsWokenAtOnceWhereAnHPAScalesIt(t *testing.T) {
	t.Parallel()
	w := startWith(t, func(cached client.Reader) client.Reader { return withoutKEDA{cached} })
	function := w.function("pricing", 0)
	fn := &v1alpha2.Function{}
	require.NoError(t, w.Get(t.Context(), function, fn))
	users := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pricing"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "pricing"}, MaxReplicas: 5,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ExternalMetricSourceType,
				External: &autoscalingv2.ExternalMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "rouse-replicas"},
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("1"))},
				},
			}},
		},
	}
	require.NoError(t, w.Create(t.Context(), users))
	w.scaler <- announced{function, 4}
	never.Happens(t, func() bool { return w.replicas("pricing") != 0 }, 300*time.Millisecond, tick, "it is the user's")

	users.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(fn, v1alpha2.GroupVersion.WithKind("Function"))}
	require.NoError(t, w.Update(t.Context(), users))
	w.announce(function, 4, func() bool { return w.replicas("pricing") == 4 })
	w.requireAllCounts(0, 0, 1)
}

func TestALargeBacklogWaitsForKEDAsPartInAWakeThatTheControllerMade(t *testing.T) {
	t.Parallel()
	w := start(t)
	function := w.function("pricing", 0)
	w.announce(function, 4, func() bool { return w.replicas("pricing") == 1 })
	w.scaler <- announced{function, 4}
	never.Happens(t, func() bool { return w.replicas("pricing") != 1 }, 300*time.Millisecond, tick, "KEDA would take them away again")

	scaled := w.kedaObject("pricing", nil)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(scaled), scaled))
	active := metav1.Now().UTC().Format(time.RFC3339)
	require.NoError(t, unstructured.SetNestedField(scaled.Object, active, "status", "lastActiveTime"))
	require.NoError(t, w.Status().Update(t.Context(), scaled)) // as KEDA
	w.announce(function, 4, func() bool { return w.replicas("pricing") == 4 })
	w.requireCounts(1, 1)
}

func TestAWorkloadThatAServiceScalesIsWokenAsAFunctionIs(t *testing.T) {
	t.Parallel()
	w := start(t)
	labels := map[string]string{"app": "ledger"}
	require.NoError(t, w.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ledger"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(0)), ServiceName: "books", Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podsWith(labels),
		},
	}))
	w.deployment("unscaled", 0)
	books := w.service("books", "StatefulSet", "ledger", true)
	others := w.service("others", "Deployment", "unscaled", false) // the ScaledObject is not the Service's
	replicas := func() int32 {
		set := &appsv1.StatefulSet{}
		require.NoError(t, w.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "ledger"}, set))
		return *set.Spec.Replicas
	}
	w.announce(books, 4, func() bool {
		w.scaler <- announced{others, 4}
		return replicas() == 1
	})
	require.Zero(t, w.replicas("unscaled"))
	w.awaitKEDALate("Service", "books")
}

// awaitKEDALate waits for the Event about an object that the controller has woken in KEDA's place.
func (w *fixture) awaitKEDALate(kind, name string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		events := &eventsv1.EventList{}
		require.NoError(w.t, w.List(w.t.Context(), events, client.InNamespace(w.namespace)))
		return slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool {
			return event.Reason == "KEDALate" && event.Regarding.Kind == kind && event.Regarding.Name == name
		})
	}, timeout, tick)
}

// service creates a Service whose events scale a target up to 5 replicas, with a ScaledObject, which it may own.
func (w *fixture) service(name, kind, target string, owns bool) types.NamespacedName {
	w.t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: name, Annotations: map[string]string{"rouse.run/scale-target": kind + "/" + target},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	require.NoError(w.t, w.Create(w.t.Context(), service))
	scaled := w.kedaObject(name, nil)
	require.NoError(w.t, unstructured.SetNestedMap(scaled.Object, map[string]any{"kind": kind, "name": target}, "spec", "scaleTargetRef"))
	require.NoError(w.t, unstructured.SetNestedField(scaled.Object, int64(5), "spec", "maxReplicaCount"))
	if owns {
		scaled.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))})
	}
	require.NoError(w.t, w.Create(w.t.Context(), scaled))
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

func TestOnlyFunctionsThatKEDAScalesAreWoken(t *testing.T) {
	t.Parallel()
	w := start(t)
	names := []string{"nobodys", "anothers", "unscaled", "users"}
	w.deployment("nobodys", 0) // there is no Function of this name
	w.function("anothers", 0)
	require.NoError(t, w.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "anothers"}}))
	w.deployment("anothers", 0) // it is not the Function's
	w.function("unscaled", 0)
	require.NoError(t, w.Delete(t.Context(), w.kedaObject("unscaled", nil)))
	w.function("users", 0)
	require.NoError(t, w.Delete(t.Context(), w.kedaObject("users", nil)))
	require.NoError(t, w.Create(t.Context(), w.kedaObject("users", nil))) // it is not the Function's
	for name, annotations := range map[string]map[string]string{
		"paused": {"autoscaling.keda.sh/paused": "true"},
		"fixed":  {"autoscaling.keda.sh/paused-replicas": "0"},
		"halted": {"autoscaling.keda.sh/paused-scale-out": ""},
	} {
		w.function(name, 0)
		require.NoError(t, w.Patch(t.Context(), w.kedaObject(name, annotations), client.Merge))
		names = append(names, name)
	}

	last := w.function("last", 0)
	w.announce(last, 1, func() bool {
		for _, name := range append(names, "nothing") {
			w.scaler <- announced{types.NamespacedName{Namespace: w.namespace, Name: name}, 7}
		}
		return w.replicas("last") == 1
	})
	for _, name := range names {
		require.Zero(t, w.replicas(name), name)
	}
}

func TestForgedAnnouncementsTakeNoMemory(t *testing.T) {
	t.Parallel()
	w := start(t)
	last := w.function("last", 0)
	w.announce(last, 1, func() bool {
		for n := range 100 {
			w.scaler <- announced{types.NamespacedName{Namespace: w.namespace, Name: fmt.Sprintf("forged-%d", n)}, 1}
		}
		return w.replicas("last") == 1
	})
	w.reconciler.mu.Lock()
	defer w.reconciler.mu.Unlock()
	require.Len(t, w.reconciler.wants, 1)
}
