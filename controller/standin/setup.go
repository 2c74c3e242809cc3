package standin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
)

// Options configures stand-ins.
type Options struct {
	// PerNamespace bounds the stand-ins of a namespace; 0: there are none.
	PerNamespace int
	// PriorityClass is that of stand-ins, so that other pods take their room where there is no other; it may be empty.
	PriorityClass string
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	const most = 100
	fs.Int(&o.PerNamespace, "stand-ins-per-namespace",
		"how many stand-ins a namespace may have at most, by its annotation "+v1alpha2.AnnotationStandIns+"; 0: none").Between(0, most)
	fs.String(&o.PriorityClass, "stand-ins-priority-class", "PriorityClass of stand-ins, for whose room other pods evict them; empty: that of other pods")
}

// Enabled reports whether namespaces may have stand-ins.
func (o *Options) Enabled() bool { return o.PerNamespace > 0 }

// Announcements reports and announces which Functions need replicas.
type Announcements interface {
	// WatchWanted calls apply for each announcement, one call at a time, until ctx ends.
	WatchWanted(ctx context.Context, apply func(function types.NamespacedName, replicas int)) error
	// AnnounceWanted announces that a Function needs replicas.
	AnnounceWanted(function types.NamespacedName, replicas int) error
}

// Parts are the dependencies of the controller.
type Parts struct {
	Registerer    prometheus.Registerer
	Announcements Announcements
	// Settings returns the settings that Functions are made with.
	Settings func() *resources.Settings
}

// maxConcurrentReconciles bounds the namespaces that are worked on at a time.
const maxConcurrentReconciles = 4

// maxHandovers bounds the hand-overs under way. No namespace has more than it leaves to others.
const maxHandovers = 32

// Controller keeps stand-ins, and hands Functions over to them.
type Controller struct {
	options       Options
	client        client.Client // reads the cache
	cache         cache.Cache
	live          client.Reader
	recorder      events.EventRecorder
	announcements Announcements
	settings      func() *resources.Settings
	clock         clock.PassiveClock
	metrics       *standInMetrics

	pool     *pool
	prepared *environments
	places   *fair.Pool
	http     *http.Client
}

// Setup adds the controller to a manager with the cache of the Function controller. It runs on the leader.
func Setup(mgr ctrl.Manager, parts Parts, options Options) error {
	_, err := setup(mgr, parts, options)
	return err
}

func setup(mgr ctrl.Manager, parts Parts, options Options) (*Controller, error) {
	c := &Controller{
		options: options, client: mgr.GetClient(), cache: mgr.GetCache(), live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("stand-ins"),
		announcements: parts.Announcements, settings: parts.Settings, clock: clock.RealClock{}, metrics: newMetrics(parts.Registerer),
		pool: newPool(), prepared: newEnvironments(), places: fair.NewPool(fair.Limits{Total: maxHandovers}), http: newHTTPClient(),
	}
	err := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Named("stand-in").
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, namespace client.Object) []reconcile.Request {
			return requestsFor(namespace.GetName())
		})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(c.namespaceOf)).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(c.namespaceOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(c)
	if err == nil {
		err = mgr.Add(&listener{Controller: c, log: mgr.GetLogger().WithName("stand-ins"), wakes: map[types.NamespacedName]time.Time{}})
	}
	if err != nil {
		return nil, fmt.Errorf("set up the controller of stand-ins: %w", err)
	}
	return c, nil
}

// warm has the cache read what a hand-over needs, which is otherwise read when the first Function wakes.
func (c *Controller) warm(ctx context.Context) error {
	for _, kind := range []client.Object{&v1alpha2.Function{}, &networkingv1.NetworkPolicy{}, kube.ScaledObjectDefinition()} {
		if _, err := c.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("read what the hand-over to a stand-in needs: %w", err)
		}
	}
	return nil
}

// namespaceOf requests the namespace of a stand-in, and of the Deployment and the pods of a Function in a namespace with stand-ins.
func (c *Controller) namespaceOf(_ context.Context, pod client.Object) []reconcile.Request {
	if pod.GetLabels()[v1alpha2.LabelStandIn] == "" && !c.pool.any(pod.GetNamespace()) {
		return nil
	}
	return requestsFor(pod.GetNamespace())
}

// requestsFor is in the namespace, too, so that namespaces take turns.
func requestsFor(namespace string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: namespace}}}
}

// standInMetrics count hand-overs.
type standInMetrics struct {
	handovers *prometheus.CounterVec
	seconds   prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *standInMetrics {
	m := &standInMetrics{
		handovers: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_controller_stand_in_handovers_total",
			Help: "Wakes of Functions in namespaces with stand-ins: one served, the Function is ineligible, none was ready, all hand-overs were busy, or it failed.",
		}, []string{"result"}),
		seconds: promauto.With(registerer).NewHistogram(prometheus.HistogramOpts{
			Name:    "rouse_controller_stand_in_handover_seconds",
			Help:    "Time from the announcement that a Function wakes until its Service selects a stand-in with its handler.",
			Buckets: []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56},
		}),
	}
	for _, result := range []string{resultServed, resultIneligible, resultNone, resultBusy, resultFailed} {
		m.handovers.WithLabelValues(result)
	}
	return m
}
