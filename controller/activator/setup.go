package activator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
)

// Options configures waking by HTTP.
type Options struct {
	// GatewayService is the Service of the gateways. Without it HTTP wakes no Function.
	GatewayService types.NamespacedName
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Service(&o.GatewayService, "gateway-service", "Service of the gateways, namespace/name: HTTP requests wake Functions through them; empty: none does")
}

// Enabled reports whether there are gateways.
func (o *Options) Enabled() bool { return o.GatewayService.Name != "" }

const (
	// serviceIndex finds the slices of a Service, and portIndex our slices with a port.
	serviceIndex = "rouse.service"
	portIndex    = "rouse.port"
	// workloadIndex finds the Services that HTTP wakes the workloads of, with the value wakes.
	workloadIndex, wakes = "rouse.workload", "wakes"
	// maxConcurrentReconciles is higher than in other controllers: a lost gateway has to leave all slices soon.
	maxConcurrentReconciles = 16
)

// CacheObjects limits the EndpointSlices in the manager's cache. Setup relies on it; pass it to the manager as part of
// cache.Options.ByObject.
func CacheObjects() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: {Transform: withoutDetails}}
}

// withoutDetails keeps only the readiness of foreign slices. Managed fields of those that the controller applies show whether they
// have to be applied.
func withoutDetails(object any) (any, error) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	if activation.IsApplied(slice) {
		slice.Annotations = kube.OnlyMark(slice.Annotations)
		kube.Share(slice)
		return slice, nil
	}
	slice.Annotations = nil
	slice.ManagedFields, slice.Ports = nil, nil
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		slice.Endpoints[i] = discoveryv1.Endpoint{Addresses: endpoint.Addresses, Conditions: endpoint.Conditions, NodeName: endpoint.NodeName}
	}
	return slice, nil
}

// Parts are the dependencies of the controller.
type Parts struct {
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Announcements reports which Functions are idle.
	Announcements Announcements
	// ScalesToZero reports whether something in the cluster may scale Functions to zero: KEDA, or HPAs by the scaler's external metrics.
	ScalesToZero func(context.Context) (bool, error)
	// Dial opens connections to gateways; nil: those of the network.
	Dial Dial
}

// Setup adds the controller of activators to a manager whose cache is limited by CacheObjects.
func Setup(ctx context.Context, mgr ctrl.Manager, parts Parts, options Options) error {
	if !options.Enabled() {
		return addPart(mgr, &cleaner{reader: mgr.GetAPIReader(), writer: mgr.GetClient(), log: mgr.GetLogger().WithName("activation")})
	}
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if parts.Dial == nil {
		parts.Dial = (&net.Dialer{}).DialContext
	}
	asked := newCaller(parts.Dial)
	changes, idle := make(chan event.GenericEvent), make(chan event.GenericEvent)
	probes := &prober{
		reader: mgr.GetClient(), service: options.GatewayService, health: asked, log: mgr.GetLogger().WithName("activation"),
		changed: func(ctx context.Context) { send(ctx, changes, &v1alpha2.Function{}) },
	}
	reconciler := &Reconciler{
		client:         mgr.GetClient(),
		applier:        kube.NewApplier(mgr.GetClient()),
		recorder:       mgr.GetEventRecorder("activation-controller"),
		clock:          clock.RealClock{},
		gatewayService: options.GatewayService,
		scalesToZero:   parts.ScalesToZero,
		lost:           probes.lost,
		activators:     asked,
		memories:       newMemories(),
		ports:          newPorts(),
	}
	reconciler.metrics = newMetrics(parts.Registerer, reconciler.memories, reconciler.ports)
	err := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Named("activation").
		For(&v1alpha2.Function{}, builder.WithPredicates(kube.ChangedOrDiffers(scalingDiffers))).
		Owns(&corev1.Service{}).
		Watches(&corev1.Service{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(wakesWorkload())).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(functionsOf(mgr.GetClient(), options.GatewayService)),
			builder.WithPredicates(endpointsChanged())).
		WatchesRawSource(source.Channel(changes, handler.EnqueueRequestsFromMapFunc(wakeable(mgr.GetClient())))).
		WatchesRawSource(source.Channel(idle, &handler.EnqueueRequestForObject{})).
		Complete(reconciler)
	if err != nil {
		return fmt.Errorf("set up the activator controller: %w", err)
	}
	listens := &listener{announcements: parts.Announcements, memories: reconciler.memories, clock: reconciler.clock, requests: idle}
	return addPart(mgr, probes, listens)
}

func addPart(mgr ctrl.Manager, parts ...manager.Runnable) error {
	for _, part := range parts {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("set up the activator controller: %w", err)
		}
	}
	return nil
}

func index(ctx context.Context, indexer client.FieldIndexer) error {
	for field, values := range map[string]client.IndexerFunc{serviceIndex: indexService, portIndex: indexPort} {
		if err := indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, field, values); err != nil {
			return fmt.Errorf("index the EndpointSlices: %w", err)
		}
	}
	if err := indexer.IndexField(ctx, &corev1.Service{}, workloadIndex, indexWorkload); err != nil {
		return fmt.Errorf("index the Services: %w", err)
	}
	return nil
}

func indexWorkload(object client.Object) []string {
	if service, ok := object.(*corev1.Service); ok && activation.WakesWorkload(service) {
		return []string{wakes}
	}
	return nil
}

// wakesWorkload passes Services that HTTP wakes the workloads of, and those that have been such.
func wakesWorkload() predicate.Predicate {
	are := func(object client.Object) bool { return len(indexWorkload(object)) > 0 }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return are(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return are(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return are(e.ObjectOld) || are(e.ObjectNew) },
	}
}

func indexService(object client.Object) []string {
	return []string{object.GetLabels()[discoveryv1.LabelServiceName]}
}

func indexPort(object client.Object) []string {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	listing, ok := activation.ListingOf(slice)
	if !ok {
		return nil
	}
	return []string{strconv.Itoa(int(listing.Port))}
}

// scalingDiffers reports whether the reason of a Function's scaling condition has changed, which it does when KEDA is
// installed or removed.
func scalingDiffers(before, after client.Object) bool {
	was, _ := before.(*v1alpha2.Function)
	is, _ := after.(*v1alpha2.Function)
	return was == nil || is == nil || scalingReason(was) != scalingReason(is)
}

func scalingReason(fn *v1alpha2.Function) string {
	if condition := meta.FindStatusCondition(fn.Status.Conditions, v1alpha2.ConditionScaling); condition != nil {
		return condition.Reason
	}
	return ""
}

// endpointsChanged passes changes of our slices, and changes of the endpoints in foreign slices.
func endpointsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, _ := e.ObjectOld.(*discoveryv1.EndpointSlice)
		is, _ := e.ObjectNew.(*discoveryv1.EndpointSlice)
		return was == nil || is == nil || activation.IsOurs(was) || activation.IsOurs(is) ||
			indexService(was)[0] != indexService(is)[0] || !apiequality.Semantic.DeepEqual(was.Endpoints, is.Endpoints)
	}}
}

// functionsOf finds the Functions and workloads that a slice affects: the one with its Service's name, or all when it lists gateways.
func functionsOf(reader client.Reader, gatewayService types.NamespacedName) handler.MapFunc {
	all := wakeable(reader)
	return func(ctx context.Context, slice client.Object) []reconcile.Request {
		service := types.NamespacedName{Namespace: slice.GetNamespace(), Name: slice.GetLabels()[discoveryv1.LabelServiceName]}
		if service == gatewayService {
			return all(ctx, slice)
		}
		return []reconcile.Request{{NamespacedName: service}}
	}
}

// wakeable finds all Functions and workloads that HTTP may wake.
func wakeable(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		functions := &v1alpha2.FunctionList{}
		if err := reader.List(ctx, functions, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list functions")
			return nil
		}
		var requests []reconcile.Request
		for i := range functions.Items {
			if mayBeWoken(&functions.Items[i]) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&functions.Items[i])})
			}
		}
		services := &corev1.ServiceList{}
		if err := reader.List(ctx, services, client.MatchingFields{workloadIndex: wakes}, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list the Services of workloads")
			return nil
		}
		for i := range services.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&services.Items[i])})
		}
		return requests
	}
}

// metrics contains no label that grows with the number of Functions.
type metrics struct{ forged prometheus.Counter }

func newMetrics(registerer prometheus.Registerer, memories *memories, ports *ports) *metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_controller_activators_listed",
		Help: "Functions whose activators are listed, because they sleep, are about to or have just woken.",
	}, func() float64 { return float64(memories.listed()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_controller_activator_ports_used",
		Help: "Functions that HTTP may wake: each has a port of the activators, of which there are 22768.",
	}, func() float64 { return float64(ports.used()) })
	return &metrics{forged: factory.NewCounter(prometheus.CounterOpts{
		Name: "rouse_controller_forged_activator_slices_total",
		Help: "EndpointSlices that claimed to list activators, were not written by the controller, and were deleted.",
	})}
}

// cleanDelay is the delay before a failed deletion is retried.
const cleanDelay = 10 * time.Second

// cleaner deletes all our slices where there are no gateways, or no longer any: they would direct callers to addresses
// without a server.
type cleaner struct {
	reader client.Reader // bypasses the cache, which need not watch slices for this
	writer client.Writer
	log    logr.Logger
}

// Start deletes the slices once.
func (c *cleaner) Start(ctx context.Context) error {
	for {
		deleted, err := c.clean(ctx)
		if deleted > 0 {
			c.log.Info("deleted the EndpointSlices of activators, because there are no gateways", "slices", deleted)
		}
		if err == nil {
			return nil
		}
		c.log.Error(err, "cannot delete the EndpointSlices of activators")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cleanDelay):
		}
	}
}

func (c *cleaner) clean(ctx context.Context) (deleted int, err error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := c.reader.List(ctx, list, client.MatchingLabels{discoveryv1.LabelManagedBy: activation.ManagedBy}); err != nil {
		return 0, fmt.Errorf("list the EndpointSlices of activators: %w", err)
	}
	var errs []error
	for i := range list.Items {
		slice := &list.Items[i]
		if err := client.IgnoreNotFound(c.writer.Delete(ctx, slice)); err != nil {
			errs = append(errs, fmt.Errorf("delete EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err))
			continue
		}
		deleted++
	}
	return deleted, errors.Join(errs...)
}
