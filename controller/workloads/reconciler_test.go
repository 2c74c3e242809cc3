package workloads

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/never"
	"github.com/rouse-run/rouse/internal/workload"
)

const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
)

var cluster, withoutKEDA = envtest.New(envtest.WithKEDA()), envtest.New()

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m, withoutKEDA))
}

// fixture is a namespace with a controller.
type fixture struct {
	client.Client
	t         *testing.T
	cluster   *envtest.Cluster
	scaling   resources.Scaling
	namespace string
	stop      func()
}

func start(t *testing.T) *fixture {
	t.Helper()
	return startOn(t, cluster, resources.Scaling{})
}

func startOn(t *testing.T, cluster *envtest.Cluster, scaling resources.Scaling) *fixture {
	t.Helper()
	environment := cluster.Environment(t)
	w := &fixture{Client: environment.Client, t: t, cluster: cluster, scaling: scaling, namespace: environment.Namespace(t)}
	w.scaling.ScalerAddress, w.scaling.HTTPWake, w.scaling.Defaults = "scaler:9000", true, workload.Tuning{PollingSeconds: 10, CooldownSeconds: 60}
	w.run()
	return w
}

// run starts a controller, which ends with stop or with the test.
func (w *fixture) run() {
	w.t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(w.t, err)
	objects := map[string]cache.Config{w.namespace: {}}
	mgr, err := ctrl.NewManager(w.cluster.Environment(w.t).Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{ByObject: function.CacheObjects(), DefaultTransform: function.Transform, DefaultNamespaces: objects},
	})
	require.NoError(w.t, err)
	require.NoError(w.t, Setup(mgr, func() *resources.Settings {
		return &resources.Settings{Scaling: w.scaling}
	}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	w.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(w.t, <-ended)
		}
	}
	w.t.Cleanup(func() { w.stop() })
}

// deployment creates one whose pods have the label app.
func (w *fixture) deployment(name, app string) {
	w.t.Helper()
	labels := map[string]string{"app": app}
	require.NoError(w.t, w.Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels)},
	}))
}

func template(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "x"}}},
	}
}

// service creates one that selects the pods of worker and scales the target.
func (w *fixture) service(name, target string) {
	w.t.Helper()
	require.NoError(w.t, w.Create(w.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{"rouse.run/scale-target": target}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "worker"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}))
}

func (w *fixture) annotate(name, key string, value any) {
	w.t.Helper()
	patch := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}}
	patch.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	patch.SetNamespace(w.namespace)
	patch.SetName(name)
	require.NoError(w.t, w.Patch(w.t.Context(), patch, client.Merge))
}

// scaledObject returns a ScaledObject, nil if there is none.
func (w *fixture) scaledObject(name string) *unstructured.Unstructured {
	w.t.Helper()
	object := envtest.ScaledObject(w.namespace, name, nil)
	err := w.Get(w.t.Context(), client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return object
}

func (w *fixture) awaitScaledObject(name string) *unstructured.Unstructured {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.scaledObject(name) != nil }, timeout, tick)
	return w.scaledObject(name)
}

// awaitEvent waits for an Event about a Service.
func (w *fixture) awaitEvent(service, reason, text string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		events := &eventsv1.EventList{}
		require.NoError(w.t, w.List(w.t.Context(), events, client.InNamespace(w.namespace)))
		return slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool {
			return event.Regarding.Kind == "Service" && event.Regarding.Name == service && event.Reason == reason && strings.Contains(event.Note, text)
		})
	}, timeout, tick, "%s %s", reason, text)
}

func TestAnAnnotatedServiceHasAScaledObjectOfItsTarget(t *testing.T) {
	t.Parallel()
	w := start(t)
	labels := map[string]string{"app": "worker"}
	require.NoError(t, w.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ledger"},
		Spec:       appsv1.StatefulSetSpec{ServiceName: "books", Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels)},
	}))
	w.service("books", "statefulset/ledger")
	made := w.awaitScaledObject("books")
	spec, _, err := unstructured.NestedMap(made.Object, "spec")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "ledger"}, spec["scaleTargetRef"])
	require.Equal(t, []any{map[string]any{
		"type": "external-push", "metadata": map[string]any{"scalerAddress": "scaler:9000", "service": "books", "activationLagThreshold": "0"},
	}}, spec["triggers"])
	require.Equal(t, int64(0), spec["minReplicaCount"])
	require.Equal(t, int64(10), spec["maxReplicaCount"])
	restores, _, err := unstructured.NestedBool(spec, "advanced", "restoreToOriginalReplicaCount")
	require.NoError(t, err)
	require.True(t, restores)
	w.awaitEvent("books", "Scales", "ScaledObject books keeps 0 to 10 replicas of StatefulSet ledger")

	w.annotate("books", "rouse.run/max-replicas", "3")
	require.Eventually(t, func() bool {
		most, _, err := unstructured.NestedInt64(w.scaledObject("books").Object, "spec", "maxReplicaCount")
		return err == nil && most == 3
	}, timeout, tick)
}

func TestTheScaledObjectOfAWorkloadThatHTTPWakesCountsRequestsWhereTheyPass(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.deployment("worker", "worker")
	w.service("worker", "deployment/worker")
	w.awaitScaledObject("worker")
	metadata := func() map[string]any {
		triggers, _, err := unstructured.NestedSlice(w.scaledObject("worker").Object, "spec", "triggers")
		require.NoError(t, err)
		found, _, err := unstructured.NestedMap(triggers[0].(map[string]any), "metadata")
		require.NoError(t, err)
		return found
	}
	require.NotContains(t, metadata(), "httpConcurrency")

	w.annotate("worker", "rouse.run/http-wake", "enabled")
	w.awaitEvent("worker", "Scales", "by the events and HTTP requests of the Service")
	require.Equal(t, "50", metadata()["httpConcurrency"])
	require.NotContains(t, metadata(), "httpCounted", "its pods report their requests")

	service := &corev1.Service{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "worker"}, service))
	service.Spec.Ports[0].TargetPort = intstr.FromString("rouse-8080")
	require.NoError(t, w.Update(t.Context(), service))
	require.Eventually(t, func() bool { return metadata()["httpCounted"] == "false" }, timeout, tick)

	w.annotate("worker", "rouse.run/scale-target", nil)
	require.Eventually(t, func() bool { return w.scaledObject("worker") == nil }, timeout, tick)
	w.awaitEvent("worker", "CannotScale", "annotation rouse.run/http-wake needs rouse.run/scale-target")
}

func TestAWrongAnnotationKeepsTheScaledObjectThatThereIs(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.deployment("worker", "worker")
	w.service("worker", "deployment/worker")
	before := w.awaitScaledObject("worker")
	w.annotate("worker", "rouse.run/scale-target", "cronjob/worker")
	w.awaitEvent("worker", "CannotScale", "must be deployment/NAME")
	require.Equal(t, before.GetResourceVersion(), w.scaledObject("worker").GetResourceVersion())
}

func TestWithoutTheAnnotationTheScaledObjectGoes(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.deployment("worker", "worker")
	for _, name := range []string{"worker", "while-away"} {
		w.service(name, "deployment/worker")
		w.awaitScaledObject(name)
		if name == "while-away" {
			w.stop()
			w.annotate(name, "rouse.run/scale-target", nil)
			require.NotNil(t, w.scaledObject(name))
			w.run()
		} else {
			w.annotate(name, "rouse.run/scale-target", nil)
		}
		require.Eventually(t, func() bool { return w.scaledObject(name) == nil }, timeout, tick, name)
		w.awaitEvent(name, "ScalesNoMore", "is deleted")
	}
}

func TestATargetHasOneAutoscaler(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, name := range []string{"twice", "cpu", "theirs"} {
		w.deployment(name, "worker")
	}
	require.NoError(t, w.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "by-cpu"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "cpu"}, MaxReplicas: 2,
		},
	}))
	require.NoError(t, w.Create(t.Context(), envtest.ScaledObject(w.namespace, "theirs", nil)))
	w.service("first", "deployment/twice")
	w.awaitScaledObject("first")
	w.service("second", "deployment/twice")
	w.awaitEvent("second", "CannotScale", "Deployment twice is scaled by ScaledObject first too")
	w.service("busy", "deployment/cpu")
	w.awaitEvent("busy", "CannotScale", "Deployment cpu is scaled by HorizontalPodAutoscaler by-cpu too")
	w.service("theirs", "deployment/theirs")
	w.awaitEvent("theirs", "CannotScale", "there is a ScaledObject theirs that is not the Service's: delete it")
	never.Happens(t, func() bool { return w.scaledObject("second") != nil || w.scaledObject("busy") != nil }, 200*time.Millisecond, tick, "two autoscalers")
}

func TestATargetThatComesLaterIsScaledThen(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.service("worker", "deployment/worker")
	w.awaitEvent("worker", "CannotScale", "Deployment worker does not exist in namespace "+w.namespace)
	w.deployment("worker", "worker")
	w.awaitScaledObject("worker")
}

func TestWithoutKEDAAWorkloadHasAnAutoscalerWhereTheScalerServesMetrics(t *testing.T) {
	t.Parallel()
	w := startOn(t, withoutKEDA, resources.Scaling{ExternalMetrics: true, TriggerTypes: []string{"cpu"}})
	w.deployment("worker", "worker")
	w.service("worker", "deployment/worker")
	w.awaitEvent("worker", "Scales", "HorizontalPodAutoscaler worker keeps 1 to 10 replicas of Deployment worker by the events of the Service; "+
		"the API server lets no HorizontalPodAutoscaler scale to zero")
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	key := client.ObjectKey{Namespace: w.namespace, Name: "worker"}
	require.NoError(t, w.Get(t.Context(), key, hpa))
	require.Equal(t, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "worker"}, hpa.Spec.ScaleTargetRef)
	require.Equal(t, map[string]string{"service": "worker", "activationLagThreshold": "0"}, hpa.Spec.Metrics[0].External.Metric.Selector.MatchLabels)

	w.annotate("worker", "rouse.run/triggers", `[{type: cpu, metricType: Utilization, metadata: {value: "50"}}]`)
	w.awaitEvent("worker", "Scales", "annotation rouse.run/triggers needs KEDA")

	deployment := &appsv1.Deployment{}
	require.NoError(t, w.Get(t.Context(), key, deployment))
	deployment.Spec.Replicas = new(int32(0)) // as the HPA would where it may
	require.NoError(t, w.Update(t.Context(), deployment))
	w.annotate("worker", "rouse.run/scale-target", nil)
	w.awaitEvent("worker", "ScalesNoMore", "HorizontalPodAutoscaler worker is deleted")
	require.NoError(t, w.Get(t.Context(), key, deployment))
	require.Equal(t, int32(1), *deployment.Spec.Replicas, "nothing would wake it")
	require.True(t, apierrors.IsNotFound(w.Get(t.Context(), key, hpa)))
}

func TestWithoutKEDAZeroThatIsAskedForAndRefusedIsExplainedToo(t *testing.T) {
	t.Parallel()
	w := startOn(t, withoutKEDA, resources.Scaling{ExternalMetrics: true})
	w.deployment("worker", "worker")
	w.service("worker", "deployment/worker")
	w.annotate("worker", "rouse.run/min-replicas", "0")
	w.annotate("worker", "rouse.run/max-replicas", "4")
	w.awaitEvent("worker", "Scales", "keeps 1 to 4 replicas of Deployment worker by the events of the Service; the API server lets no HorizontalPodAutoscaler scale to zero")
}

func TestWithoutKEDAAndMetricsAWorkloadSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := startOn(t, withoutKEDA, resources.Scaling{})
	w.deployment("worker", "worker")
	w.service("worker", "deployment/worker")
	w.awaitEvent("worker", "CannotScale", "KEDA is not installed: install it, or install the chart with scaler.externalMetrics.enabled")
}
