package wake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kedarules"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/workload"
)

// Announcements reports how many replicas the work of Functions needs.
type Announcements interface {
	// WatchWanted calls apply for each announcement, one call at a time, until ctx ends.
	WatchWanted(ctx context.Context, apply func(function types.NamespacedName, replicas int)) error
}

// Setup adds the controller to a manager. It runs on the leader.
func Setup(mgr ctrl.Manager, announcements Announcements, registerer prometheus.Registerer) error {
	_, err := setup(mgr, announcements, registerer)
	return err
}

func setup(mgr ctrl.Manager, announcements Announcements, registerer prometheus.Registerer) (*Reconciler, error) {
	r := newReconciler(mgr, registerer)
	requests := make(chan event.GenericEvent)
	err := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Named("wake").
		WatchesRawSource(source.Channel(requests, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err == nil {
		err = mgr.Add(&listener{announcements, r, requests})
	}
	if err != nil {
		return nil, fmt.Errorf("set up the controller of wakes: %w", err)
	}
	return r, nil
}

// maxConcurrentReconciles bounds the writes under way: a burst of wakes waits for the API server, and for no worker.
const maxConcurrentReconciles = 16

// listener records announcements.
type listener struct {
	announcements Announcements
	reconciler    *Reconciler
	requests      chan<- event.GenericEvent
}

// Start listens until ctx ends.
func (l *listener) Start(ctx context.Context) error {
	return l.announcements.WatchWanted(ctx, func(function types.NamespacedName, replicas int) {
		if about, err := l.reconciler.scaled(ctx, function); about == nil || err != nil {
			return // the announcement is repeated, and a forged one takes no memory
		}
		l.reconciler.announce(function, replicas)
		select {
		case l.requests <- event.GenericEvent{Object: &v1alpha2.Function{
			ObjectMeta: metav1.ObjectMeta{Namespace: function.Namespace, Name: function.Name},
		}}:
		case <-ctx.Done():
		}
	})
}

// The reasons for which replicas are set.
const (
	reasonBacklog  = "backlog"
	reasonKEDALate = "keda_late"
	reasonNoKEDA   = "no_keda"
)

const wakesHelp = "Times that the controller has set the replicas of a Function or workload that wakes, because its work needs more than one (backlog), " +
	"because KEDA had set none for a second (keda_late), or because there is no KEDA (no_keda)."

// Reconciler sets the replicas of Functions, and of workloads that scale with a Service's events, when they wake.
type Reconciler struct {
	cached   client.Reader
	live     client.Reader
	client   client.Client
	clock    clock.PassiveClock
	recorder events.EventRecorder
	set      *prometheus.CounterVec

	mu    sync.Mutex
	wants map[types.NamespacedName]want
}

func newReconciler(mgr ctrl.Manager, registerer prometheus.Registerer) *Reconciler {
	r := &Reconciler{
		cached: mgr.GetClient(), live: mgr.GetAPIReader(), client: mgr.GetClient(), clock: clock.RealClock{},
		recorder: mgr.GetEventRecorder("wake-controller"),
		set: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_controller_wakes_total", Help: wakesHelp,
		}, []string{"reason"}),
		wants: map[types.NamespacedName]want{},
	}
	for _, reason := range []string{reasonBacklog, reasonKEDALate, reasonNoKEDA} {
		r.set.WithLabelValues(reason)
	}
	return r
}

// Reconcile implements reconcile.Reconciler. It is called again after each announcement, and once more when the wake is over, to forget it.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	wanted, known := r.current(request.NamespacedName)
	if !known {
		return reconcile.Result{}, nil
	}
	later := reconcile.Result{RequeueAfter: wakeEnds}
	keda, err := kube.KEDAInstalled(ctx, r.cached)
	if err != nil {
		return reconcile.Result{}, err
	}
	if keda && wanted.early(r.clock.Now()) {
		return later, nil
	}
	found, err := r.read(ctx, request.NamespacedName, keda)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read how it scales: %w", err)
	}
	if found == nil {
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	replicas, again := decide(wanted, found.state, r.clock.Now())
	switch {
	case again > 0:
		return reconcile.Result{RequeueAfter: again}, nil
	case replicas == 0:
		return later, nil
	}
	err = r.write(ctx, request.NamespacedName, found, replicas)
	if apierrors.IsConflict(err) { // KEDA or the HPA wrote
		return reconcile.Result{RequeueAfter: lookEvery}, nil
	}
	return later, err
}

// scaled returns the object whose events scale a workload: a Function with a scaleConfig, or a Service that names its target. It is nil
// for any other name.
func (r *Reconciler) scaled(ctx context.Context, name types.NamespacedName) (client.Object, error) {
	fn := &v1alpha2.Function{}
	err := r.cached.Get(ctx, name, fn)
	if err == nil && fn.Spec.ScaleConfig != nil && fn.DeletionTimestamp == nil {
		return fn, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	service := &corev1.Service{}
	err = r.cached.Get(ctx, name, service)
	if _, names := service.Annotations[v1alpha2.AnnotationScaleTarget]; err != nil || !names || service.DeletionTimestamp != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return service, nil
}

// waking is what wakes: the object whose events do it, and the target with its state.
type waking struct {
	about  client.Object
	target client.Object
	state  state
}

// read returns what KEDA, or an HPA without it, scales by a name, nil if nothing is scaled.
func (r *Reconciler) read(ctx context.Context, name types.NamespacedName, keda bool) (*waking, error) {
	about, err := r.scaled(ctx, name)
	if err != nil || about == nil {
		return nil, err
	}
	scaled, err := ReadScaled(ctx, r.live, name, keda)
	if err != nil || scaled == nil || !metav1.IsControlledBy(scaled.meta, about) { // any other is someone's own
		return nil, err
	}
	found := &waking{about: about, state: state{low: scaled.Min, high: scaled.Max, paused: scaled.Paused, active: scaled.Active, alone: !keda}}
	target := types.NamespacedName{Namespace: name.Namespace, Name: scaled.TargetName}
	fn, isFunction := about.(*v1alpha2.Function)
	if isFunction {
		low, high := workload.ReplicaBounds(fn)
		target, found.state.low, found.state.high = name, int(low), int(high)
	}
	found.target, found.state.replicas, err = r.target(ctx, scaled.TargetKind, target)
	if err != nil || found.target == nil || isFunction && !metav1.IsControlledBy(found.target, fn) {
		return nil, err
	}
	return found, nil
}

// target reads a workload and its replicas. It is nil if there is none.
func (r *Reconciler) target(ctx context.Context, kind string, name types.NamespacedName) (client.Object, int, error) {
	object, replicas, _ := resources.NewScalable(kind)
	if err := r.live.Get(ctx, name, object); err != nil {
		return nil, 0, client.IgnoreNotFound(err)
	}
	return object, int(ptr.Deref(*replicas, 1)), nil
}

// Scaled is what decides about a wake in a ScaledObject, or in the HPA of a cluster without KEDA.
type Scaled struct {
	// TargetKind and TargetName name what it scales, between Min and Max replicas.
	TargetKind, TargetName string
	Min, Max               int
	// Paused reports whether someone has paused scaling out by annotations of a ScaledObject.
	Paused bool
	// Active is the time at which KEDA last found work.
	Active time.Time

	meta metav1.Object
}

// ReadScaled reads the ScaledObject of a Function or of a Service, or its HPA in a cluster without KEDA; nil if there is none.
func ReadScaled(ctx context.Context, reader client.Reader, name types.NamespacedName, keda bool) (*Scaled, error) {
	if !keda {
		return readAutoscaler(ctx, reader, name)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(resources.ScaledObjectKind())
	if err := reader.Get(ctx, name, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var set kedarules.Status
	set.ReadAnnotations(object.GetAnnotations())
	found := &Scaled{Paused: set.NoScaleOut != "", meta: object}
	read := func(path ...string) string {
		text, _, _ := unstructured.NestedString(object.Object, path...)
		return text
	}
	number := func(field string) int {
		value, _, _ := unstructured.NestedInt64(object.Object, "spec", field)
		return int(value)
	}
	found.TargetKind, found.TargetName = read("spec", "scaleTargetRef", "kind"), read("spec", "scaleTargetRef", "name")
	found.Min, found.Max = number("minReplicaCount"), number("maxReplicaCount")
	found.Active, _ = time.Parse(time.RFC3339, read("status", "lastActiveTime")) // KEDA has found none yet
	return found, nil
}

// readAutoscaler is nil for an HPA that does not scale by events.
func readAutoscaler(ctx context.Context, reader client.Reader, name types.NamespacedName) (*Scaled, error) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := reader.Get(ctx, name, hpa); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !activation.ScalesByEvents(hpa) {
		return nil, nil //nolint:nilnil // it is not the scaler's
	}
	return &Scaled{
		TargetKind: hpa.Spec.ScaleTargetRef.Kind, TargetName: hpa.Spec.ScaleTargetRef.Name,
		Min: int(ptr.Deref(hpa.Spec.MinReplicas, 1)), Max: int(hpa.Spec.MaxReplicas), meta: hpa,
	}, nil
}

// write sets the replicas unless someone else has written since the target was read.
func (r *Reconciler) write(ctx context.Context, name types.NamespacedName, found *waking, to int) error {
	target, from := found.target, found.state.replicas
	if err := kube.SetReplicas(ctx, r.client, target, int32(to)); err != nil {
		return err
	}
	reason := reasonBacklog
	switch {
	case found.state.alone:
		reason = reasonNoKEDA
	case from == 0:
		reason = reasonKEDALate
		r.recorder.Eventf(found.about, nil, corev1.EventTypeWarning, "KEDALate", "Wake",
			"KEDA set no replica within %s of the work, so that the controller set %d: look at KEDA's operator", gracePeriod, to)
	}
	r.set.WithLabelValues(reason).Inc()
	ctrl.LoggerFrom(ctx).Info("replicas set in a wake", "target", target.GetName(), "from", from, "to", to, "reason", reason)
	r.wrote(name, to)
	return nil
}

func (r *Reconciler) announce(function types.NamespacedName, replicas int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wants[function] = r.wants[function].announced(replicas, r.clock.Now())
}

// current returns the want of a wake that goes on, and forgets one that is over.
func (r *Reconciler) current(function types.NamespacedName) (want, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted, known := r.wants[function]
	if known && wanted.over(r.clock.Now()) {
		delete(r.wants, function)
		return want{}, false
	}
	return wanted, known
}

func (r *Reconciler) wrote(function types.NamespacedName, replicas int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wanted, known := r.wants[function]; known {
		wanted.wrote = replicas
		r.wants[function] = wanted
	}
}

func (r *Reconciler) forget(function types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.wants, function)
}
