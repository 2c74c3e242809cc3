package wake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
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
		if fn, err := l.reconciler.function(ctx, function); fn == nil || err != nil {
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
)

const wakesHelp = "Times that the controller has set the replicas of a Function that wakes, because its work needs more than one (backlog), " +
	"or because KEDA had set none for a second (keda_late)."

// Reconciler sets the replicas of Functions that wake.
type Reconciler struct {
	functions client.Reader // a cache
	live      client.Reader
	client    client.Client
	clock     clock.PassiveClock
	recorder  events.EventRecorder
	set       *prometheus.CounterVec

	mu    sync.Mutex
	wants map[types.NamespacedName]want
}

func newReconciler(mgr ctrl.Manager, registerer prometheus.Registerer) *Reconciler {
	r := &Reconciler{
		functions: mgr.GetClient(), live: mgr.GetAPIReader(), client: mgr.GetClient(), clock: clock.RealClock{},
		recorder: mgr.GetEventRecorder("wake-controller"),
		set: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_controller_wakes_total", Help: wakesHelp,
		}, []string{"reason"}),
		wants: map[types.NamespacedName]want{},
	}
	for _, reason := range []string{reasonBacklog, reasonKEDALate} {
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
	if wanted.early(r.clock.Now()) {
		return later, nil
	}
	found, deployment, err := r.read(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read how the Function scales: %w", err)
	}
	if deployment == nil {
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	replicas, again := decide(wanted, found, r.clock.Now())
	switch {
	case again > 0:
		return reconcile.Result{RequeueAfter: again}, nil
	case replicas == 0:
		return later, nil
	}
	err = r.write(ctx, deployment, found.replicas, replicas)
	if apierrors.IsConflict(err) { // KEDA or the HPA wrote
		return reconcile.Result{RequeueAfter: lookEvery}, nil
	}
	return later, err
}

// function returns a Function with a scaleConfig, or nil.
func (r *Reconciler) function(ctx context.Context, name types.NamespacedName) (*v1alpha2.Function, error) {
	fn := &v1alpha2.Function{}
	if err := r.functions.Get(ctx, name, fn); err != nil || fn.Spec.ScaleConfig == nil || fn.DeletionTimestamp != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return fn, nil
}

// read returns the state of a Function that KEDA scales. There is no Deployment for any other.
func (r *Reconciler) read(ctx context.Context, name types.NamespacedName) (state, *appsv1.Deployment, error) {
	fn, err := r.function(ctx, name)
	if err != nil || fn == nil {
		return state{}, nil, err
	}
	deployment := &appsv1.Deployment{}
	if err := r.live.Get(ctx, name, deployment); err != nil || !metav1.IsControlledBy(deployment, fn) {
		return state{}, nil, client.IgnoreNotFound(err)
	}
	low, high := workload.ReplicaBounds(fn)
	found := state{replicas: 1, low: int(low), high: int(high)}
	if deployment.Spec.Replicas != nil {
		found.replicas = int(*deployment.Spec.Replicas)
	}
	scaled, err := ReadScaledObject(ctx, r.live, name)
	if err != nil || scaled == nil {
		return state{}, nil, err
	}
	found.paused, found.active = scaled.Paused, scaled.Active
	return found, deployment, nil
}

// ScaledObject is what decides about a wake in a Function's ScaledObject.
type ScaledObject struct {
	// Paused reports whether someone has paused scaling out by its annotations.
	Paused bool
	// Active is the time at which KEDA last found work.
	Active time.Time
}

// ReadScaledObject reads a Function's ScaledObject, nil if there is none.
func ReadScaledObject(ctx context.Context, reader client.Reader, name types.NamespacedName) (*ScaledObject, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"})
	if err := reader.Get(ctx, name, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var set kedarules.Status
	set.ReadAnnotations(object.GetAnnotations())
	found := &ScaledObject{Paused: set.NoScaleOut != ""}
	text, _, _ := unstructured.NestedString(object.Object, "status", "lastActiveTime")
	found.Active, _ = time.Parse(time.RFC3339, text) // KEDA has found none yet
	return found, nil
}

// write sets the replicas unless someone else has written since the Deployment was read.
func (r *Reconciler) write(ctx context.Context, deployment *appsv1.Deployment, from, to int) error {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name, ResourceVersion: deployment.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: int32(to)},
	}
	if err := r.client.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale)); err != nil {
		return fmt.Errorf("set the replicas of the Function: %w", err)
	}
	reason := reasonBacklog
	if from == 0 {
		reason = reasonKEDALate
		about := &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, Name: deployment.Name, UID: metav1.GetControllerOf(deployment).UID,
		}}
		r.recorder.Eventf(about, nil, corev1.EventTypeWarning, "KEDALate", "Wake",
			"KEDA set no replica within %s of the Function's work, so that the controller set %d: look at KEDA's operator", gracePeriod, to)
	}
	r.set.WithLabelValues(reason).Inc()
	ctrl.LoggerFrom(ctx).Info("replicas set for a function that wakes", "from", from, "to", to, "reason", reason)
	r.wrote(client.ObjectKeyFromObject(deployment), to)
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
