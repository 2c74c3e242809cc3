package standin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
	podIP   = "192.0.2.7" // a slice takes no loopback address
)

var cluster = envtest.New(envtest.WithKEDA())

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m))
}

// announcements passes on announcements of the test, and records those of the controller.
type announcements struct {
	made chan types.NamespacedName

	mu     sync.Mutex
	wanted []types.NamespacedName
}

// WatchWanted implements Announcements.
func (a *announcements) WatchWanted(ctx context.Context, apply func(types.NamespacedName, int)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case function := <-a.made:
			apply(function, 1)
		}
	}
}

// AnnounceWanted implements Announcements.
func (a *announcements) AnnounceWanted(function types.NamespacedName, _ int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted = append(a.wanted, function)
	return nil
}

func (a *announcements) announced() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.wanted)
}

// loaded is what a stand-in was given.
type loaded struct {
	Key         string            `json:"key"`
	Environment map[string]string `json:"environment"`
}

// fixture is a namespace with a controller, and the server of all its stand-ins. The test is their kubelet.
type fixture struct {
	client.Client
	t             *testing.T
	namespace     string
	announcements *announcements
	metrics       *prometheus.Registry
	settings      *resources.Settings
	controller    *Controller
	loads         chan loaded
	answer        http.HandlerFunc
	places        *fair.Pool // nil: the controller's own
}

func start(t *testing.T, changes ...func(*fixture)) *fixture {
	t.Helper()
	environment := cluster.Environment(t)
	f := &fixture{
		Client: environment.Client, t: t, namespace: environment.Namespace(t), metrics: prometheus.NewRegistry(),
		announcements: &announcements{made: make(chan types.NamespacedName)}, loads: make(chan loaded, 10),
		settings: &resources.Settings{
			Images: map[string]string{"nodejs22": "registry.example.com/nodejs22:1", "python312": "registry.example.com/python312:1"}, DefaultProfile: "XS",
		},
		answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	}
	for _, change := range changes {
		change(f)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := loaded{}
		if r.URL.Path == loadPath && json.NewDecoder(r.Body).Decode(&got) == nil {
			f.loads <- got
		}
		f.answer(w, r)
	}))
	t.Cleanup(server.Close)
	f.run(environment, server.Listener.Addr().String())
	return f
}

// run starts the controller for this namespace only, since tests share an API server. It dials address for each stand-in.
func (f *fixture) run(environment *envtest.Environment, address string) {
	f.t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(f.t, err)
	namespaces := &metav1.PartialObjectMetadata{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{f.namespace: {}},
			ByObject:          map[client.Object]cache.ByObject{namespaces: {Field: fields.OneTermEqualSelector("metadata.name", f.namespace)}},
		},
	})
	require.NoError(f.t, err)
	f.controller, err = setup(mgr, Parts{
		Registerer: f.metrics, Announcements: f.announcements, Settings: func() *resources.Settings { return f.settings },
	}, Options{PerNamespace: 3})
	require.NoError(f.t, err)
	f.controller.http.Transport = &http.Transport{DialContext: func(ctx context.Context, network, dialled string) (net.Conn, error) {
		if dialled != podIP+":8080" {
			return nil, fmt.Errorf("%s is not the address of a stand-in", dialled)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	if f.places != nil {
		f.controller.places = f.places
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		require.NoError(f.t, <-ended)
	})
}

// ask sets the annotation of the namespace.
func (f *fixture) ask(text string) {
	f.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha2.AnnotationStandIns, text)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	require.NoError(f.t, f.Patch(f.t.Context(), namespace, client.RawPatch(types.MergePatchType, patch)))
}

// standIns returns those in a state that are not being deleted.
func (f *fixture) standIns(state string) []corev1.Pod {
	f.t.Helper()
	pods := &corev1.PodList{}
	require.NoError(f.t, f.List(f.t.Context(), pods, client.InNamespace(f.namespace), client.MatchingLabels{v1alpha2.LabelStandIn: state}))
	var found []corev1.Pod
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp.IsZero() {
			found = append(found, pod)
		}
	}
	return found
}

// await waits for n stand-ins in a state, and returns them.
func (f *fixture) await(state string, n int) []corev1.Pod {
	f.t.Helper()
	var found []corev1.Pod
	require.Eventually(f.t, func() bool {
		found = f.standIns(state)
		return len(found) == n
	}, timeout, tick, "%d stand-ins in state %s", n, state)
	return found
}

// ready does what the kubelet does when a pod is ready.
func (f *fixture) ready(pod *corev1.Pod) {
	f.t.Helper()
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, podIP
	pod.Status.PodIPs = []corev1.PodIP{{IP: podIP}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(f.t, f.Status().Update(f.t.Context(), pod))
}

// function creates a Function that sleeps, with its Deployment.
func (f *fixture) function(name string, changes ...func(*v1alpha2.Function)) *v1alpha2.Function {
	f.t.Helper()
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec: v1alpha2.FunctionSpec{
			Runtime:     v1alpha2.RuntimeNodeJS22,
			ScaleConfig: &v1alpha2.ScaleConfig{MinReplicas: new(int32(0)), MaxReplicas: new(int32(5))},
			Source:      v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "module.exports = { main: () => 'ok' }"}},
			Env:         []corev1.EnvVar{{Name: "GREETING", Value: "hello"}},
		},
	}
	for _, change := range changes {
		change(fn)
	}
	require.NoError(f.t, f.Create(f.t.Context(), fn))
	config, err := resources.Deployment(fn, f.settings, resources.Workload{
		Code: resources.Code{Image: f.settings.Images["nodejs22"], Source: "c291cmNl", Runtime: fn.Spec.Runtime}, Replicas: new(int32(0)),
	})
	require.NoError(f.t, err)
	require.NoError(f.t, f.Apply(f.t.Context(), config, client.FieldOwner("test")))
	require.NoError(f.t, f.Create(f.t.Context(), f.scaledObject(name, nil)))
	return fn
}

func (f *fixture) scaledObject(name string, annotations map[string]string) *unstructured.Unstructured {
	return envtest.ScaledObject(f.namespace, name, annotations)
}

// ownPod creates a pod of the Function.
func (f *fixture) ownPod(fn *v1alpha2.Function) *corev1.Pod {
	f.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: fn.Name + "-own", Labels: resources.SelectorLabels(fn)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "x"}}},
	}
	require.NoError(f.t, f.Create(f.t.Context(), pod))
	return pod
}

// wake announces that the Function wakes, once its namespace has a ready stand-in.
func (f *fixture) wake(fn *v1alpha2.Function) *corev1.Pod {
	f.t.Helper()
	f.ask("nodejs22=1")
	pod := f.await(v1alpha2.StandInWaits, 1)[0]
	f.ready(&pod)
	f.awaitSeen(fn)
	f.awaitSeen(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: fn.Name}})
	require.Eventually(f.t, func() bool {
		seen := &corev1.Pod{}
		err := f.controller.client.Get(f.t.Context(), client.ObjectKeyFromObject(&pod), seen)
		return err == nil && isReady(seen)
	}, timeout, tick)
	f.announcements.made <- client.ObjectKeyFromObject(fn)
	return &pod
}

// awaitSeen waits until the controller's cache has an object.
func (f *fixture) awaitSeen(object client.Object) {
	f.t.Helper()
	seen, is := object.DeepCopyObject().(client.Object)
	require.True(f.t, is)
	require.Eventually(f.t, func() bool {
		return f.controller.client.Get(f.t.Context(), client.ObjectKeyFromObject(object), seen) == nil
	}, timeout, tick)
}

func (f *fixture) handovers(result string) int {
	return int(testutil.ToFloat64(f.controller.metrics.handovers.WithLabelValues(result)))
}

// requireEvent waits for an Event.
func (f *fixture) requireEvent(reason, note string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		list := &eventsv1.EventList{}
		require.NoError(f.t, f.List(f.t.Context(), list))
		for _, event := range list.Items {
			if event.Reason == reason && event.Note == note && (event.Namespace == f.namespace || event.Regarding.Name == f.namespace) {
				return true
			}
		}
		return false
	}, timeout, tick, "no Event %s: %s", reason, note)
}

func TestANamespaceHasTheStandInsThatItsAnnotationLists(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.ask("nodejs22=1,python312=1")
	digests := map[string]bool{}
	for _, pod := range f.await(v1alpha2.StandInWaits, 2) {
		container := pod.Spec.Containers[0]
		digests[container.Env[len(container.Env)-1].Value] = true
	}
	require.Len(t, digests, 2, "each has a key of its own")

	f.ask("nodejs22=3,python312=9")
	f.requireEvent("StandInsLimited", "annotation rouse.run/stand-ins: the installation allows 3 stand-ins in a namespace")
	require.Eventually(t, func() bool {
		waiting := f.standIns(v1alpha2.StandInWaits)
		return len(waiting) == 3 && !slices.ContainsFunc(waiting, func(pod corev1.Pod) bool { return pod.Labels[v1alpha2.LabelStandInRuntime] != "nodejs22" })
	}, timeout, tick)
	f.ask("nodejs99=1")
	f.await(v1alpha2.StandInWaits, 0)
	f.requireEvent("InvalidStandIns", "annotation rouse.run/stand-ins: the installation has no image of nodejs99; it has nodejs22, python312")
}

func TestAStandInServesAWakingFunctionUntilItsOwnPodIsReady(t *testing.T) {
	t.Parallel()
	f := start(t)
	fn := f.function("price")
	pod := f.wake(fn)

	got := <-f.loads
	digest := sha256.Sum256([]byte(got.Key))
	env := pod.Spec.Containers[0].Env
	require.Equal(t, env[len(env)-1].Value, hex.EncodeToString(digest[:]))
	require.Equal(t, "hello", got.Environment["GREETING"])
	require.Equal(t, "c291cmNl", got.Environment["FUNC_HANDLER_SOURCE"])
	require.Equal(t, "price", got.Environment["FUNC_NAME"])

	serving := f.await(v1alpha2.StandInServes, 1)[0]
	require.Equal(t, pod.UID, serving.UID)
	for name, value := range resources.SelectorLabels(fn) {
		require.Equal(t, value, serving.Labels[name], "its Service selects it")
	}
	require.True(t, metav1.IsControlledBy(&serving, fn), "it ends with the Function")
	slice := &discoveryv1.EndpointSlice{}
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(pod), slice))
	require.Equal(t, fn.Name, slice.Labels[discoveryv1.LabelServiceName])
	require.Equal(t, []string{podIP}, slice.Endpoints[0].Addresses)
	f.requireEvent("StandIn", "Pod "+pod.Name+" serves until a pod of the Function is ready")
	require.Empty(t, f.standIns(v1alpha2.StandInWaits), "its successor would slow the start of the Function's own pod")
	require.Eventually(t, func() bool { return f.announcements.announced() > 0 }, timeout, tick, "a late KEDA owes the Function a pod")

	own := f.ownPod(fn)
	f.ready(own)
	f.await(v1alpha2.StandInServes, 0)
	require.True(t, apierrors.IsNotFound(f.Get(t.Context(), client.ObjectKeyFromObject(slice), slice)), "it goes before the pod")
	f.await(v1alpha2.StandInWaits, 1)
	require.Eventually(t, func() bool { return f.handovers(resultServed) == 1 }, timeout, tick)
}

func TestAWakeIsHandedOverOnce(t *testing.T) {
	t.Parallel()
	f := start(t)
	fn := f.function("price")
	f.wake(fn)
	<-f.loads
	f.await(v1alpha2.StandInServes, 1)
	for range 3 {
		f.announcements.made <- client.ObjectKeyFromObject(fn)
	}
	require.Eventually(t, func() bool { return f.handovers(resultServed) == 1 }, timeout, tick)
	require.Zero(t, f.handovers(resultNone))
}

func TestAStandInThatDoesNotLoadTheHandlerIsReplaced(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"it ends":          func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it never answers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"it redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"it refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(f *fixture) { f.answer = answer })
			first := f.wake(f.function("price"))
			require.Eventually(t, func() bool { return f.handovers(resultFailed) == 1 }, timeout, tick)
			require.Eventually(t, func() bool {
				waiting := f.standIns(v1alpha2.StandInWaits)
				return len(waiting) == 1 && waiting[0].UID != first.UID
			}, timeout, tick)
			require.Empty(t, f.standIns(v1alpha2.StandInServes))
		})
	}
}

func TestANamespaceHasNoMoreHandOversUnderWayThanItLeavesFree(t *testing.T) {
	t.Parallel()
	f := start(t, func(f *fixture) {
		f.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		f.places = fair.NewPool(fair.Limits{Total: 2})
	})
	second := f.function("second")
	f.wake(f.function("first"))
	<-f.loads
	f.announcements.made <- client.ObjectKeyFromObject(second)
	f.announcements.made <- client.ObjectKey{Namespace: "elsewhere", Name: "forged"} // when it is read the one before is done
	require.Equal(t, 1, f.handovers(resultBusy))
	require.True(t, f.places.TryAcquire("another-namespace", 1))
}

func TestAFunctionThatStandInsCannotServeIsToldWhy(t *testing.T) {
	t.Parallel()
	f := start(t)
	fn := f.function("price", func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"tier": "gold"} })
	f.wake(fn)
	f.requireEvent("NoStandIn", "No stand-in serves while the Function starts: spec.labels is set")
	require.Empty(t, f.loads)

	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "bounds"},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{v1alpha2.LabelFunctionName: "tax"}}},
	}
	require.NoError(t, f.Create(t.Context(), policy))
	f.awaitSeen(policy)
	f.wake(f.function("tax"))
	f.requireEvent("NoStandIn", "No stand-in serves while the Function starts: NetworkPolicy bounds does not select both its pods and stand-ins")
	require.Empty(t, f.loads)
}

func TestAPausedFunctionIsServedByNoStandIn(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(*fixture){
		"its ScaledObject is paused": func(f *fixture) {
			require.NoError(f.t, f.Patch(f.t.Context(), f.scaledObject("price", map[string]string{"autoscaling.keda.sh/paused": "true"}), client.Merge))
		},
		"it has none": func(f *fixture) { require.NoError(f.t, f.Delete(f.t.Context(), f.scaledObject("price", nil))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			fn := f.function("price")
			pause(f)
			first := f.wake(fn)
			require.Eventually(t, func() bool { return f.handovers(resultFailed) == 1 }, timeout, tick)
			require.Eventually(t, func() bool {
				waiting := f.standIns(v1alpha2.StandInWaits)
				return len(waiting) == 1 && waiting[0].UID != first.UID
			}, timeout, tick, "it may have loaded the handler")
			require.Empty(t, f.standIns(v1alpha2.StandInServes))
		})
	}
}

func TestAFunctionThatIsAwakeOrOfAnotherOwnerGetsNoStandIn(t *testing.T) {
	t.Parallel()
	f := start(t)
	awake, foreigner := f.function("awake"), f.function("foreigner")
	deployment := &appsv1.Deployment{}
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(awake), deployment))
	deployment.Status.Replicas, deployment.Status.ReadyReplicas = 1, 1
	require.NoError(t, f.Status().Update(t.Context(), deployment))
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(foreigner), deployment))
	deployment.OwnerReferences = nil
	require.NoError(t, f.Update(t.Context(), deployment))
	last := f.function("last")
	f.ask("nodejs22=1")
	pod := f.await(v1alpha2.StandInWaits, 1)[0]
	f.ready(&pod)
	f.announcements.made <- client.ObjectKey{Namespace: f.namespace, Name: "forged"}
	for _, fn := range []*v1alpha2.Function{awake, foreigner} {
		f.announcements.made <- client.ObjectKeyFromObject(fn)
	}
	f.wake(last)
	require.Equal(t, "last", (<-f.loads).Environment["FUNC_NAME"])
	f.await(v1alpha2.StandInServes, 1)
}

func TestAStandInWhoseFunctionDoesNotStartEndsAfterAMinute(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.wake(f.function("price"))
	serving := f.await(v1alpha2.StandInServes, 1)[0]
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotationServes, time.Now().Add(-longestService-time.Second).UTC().Format(time.RFC3339))
	require.NoError(t, f.Patch(t.Context(), &serving, client.RawPatch(types.MergePatchType, patch)))
	f.await(v1alpha2.StandInServes, 0)
	f.await(v1alpha2.StandInWaits, 1)
}

func TestStandInsOfAnEarlierProcessAreReplaced(t *testing.T) {
	t.Parallel()
	f := start(t)
	config, err := resources.StandIn(f.namespace, "earlier", v1alpha2.RuntimeNodeJS22, f.settings, "digest")
	require.NoError(t, err)
	require.NoError(t, f.Apply(t.Context(), config, client.FieldOwner("test")))
	f.ask("nodejs22=1")
	require.Eventually(t, func() bool {
		waiting := f.standIns(v1alpha2.StandInWaits)
		return len(waiting) == 1 && waiting[0].Name != "earlier"
	}, timeout, tick)
}

func TestStandInsHaveANetworkPolicyWhereFunctionsHaveOne(t *testing.T) {
	t.Parallel()
	f := start(t, func(f *fixture) {
		f.settings.Network = &resources.NetworkRules{DNSPorts: []int32{53}, Publisher: resources.Publisher{Ports: []int32{8080}}}
	})
	f.ask("nodejs22=1")
	f.await(v1alpha2.StandInWaits, 1)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: resources.StandInPolicy}}
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(policy), policy), "before the first pod")
	f.ask("")
	f.await(v1alpha2.StandInWaits, 0)
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(f.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
	}, timeout, tick)
}

func TestARefusedStandInIsAnEventOfTheNamespace(t *testing.T) {
	t.Parallel()
	f := start(t)
	require.NoError(t, f.Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "tight"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")},
		}}},
	}))
	f.ask("nodejs22=1")
	require.Eventually(t, func() bool {
		list := &eventsv1.EventList{}
		require.NoError(t, f.List(t.Context(), list))
		for _, event := range list.Items {
			if event.Reason == "StandInRefused" && event.Regarding.Name == f.namespace {
				return true
			}
		}
		return false
	}, timeout, tick)
}
