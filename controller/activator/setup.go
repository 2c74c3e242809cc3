package activator

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// serviceIndex finds the slices of a Service, and portIndex those of ours with a port.
	serviceIndex = "rouse.service"
	portIndex    = "rouse.port"
	// maxConcurrentReconciles is more than other controllers have: a gateway that is lost has to leave all slices soon.
	maxConcurrentReconciles = 16
)

// CacheObjects limits what the manager's cache holds of EndpointSlices. Setup relies on it; pass it to the manager as part of
// cache.Options.ByObject.
func CacheObjects() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: {Transform: withoutDetails}}
}

// withoutDetails leaves of slices of others what says who is ready. Of ours managed fields show whether they have to be applied.
func withoutDetails(object any) (any, error) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	if activation.IsOurs(slice) {
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

// Parts are what the controller works with and does not make.
type Parts struct {
	// Registerer gets the metrics.
	Registerer prometheus.Registerer
	// Announcements say which Functions are idle.
	Announcements Announcements
	// KEDA reports whether Functions can sleep at all.
	KEDA func(context.Context) (bool, error)
	// Dial opens connections to gateways; nil: those of the network.
	Dial Dial
}

// Setup adds the controller of activators to a manager whose cache is limited by CacheObjects.
func Setup(ctx context.Context, mgr ctrl.Manager, parts Parts, options Options) error {
	if !options.Enabled() {
		return addPart(mgr, &cleaner{reader: mgr.GetAPIReader(), writer: mgr.GetClient(), log: mgr.GetLogger().WithName("activation")})
	}
	for field, values := range map[string]client.IndexerFunc{serviceIndex: indexService, portIndex: indexPort} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &discoveryv1.EndpointSlice{}, field, values); err != nil {
			return fmt.Errorf("index the EndpointSlices: %w", err)
		}
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
		keda:           parts.KEDA,
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
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(functionsOf(mgr.GetClient(), options.GatewayService)),
			builder.WithPredicates(endpointsChanged())).
		WatchesRawSource(source.Channel(changes, handler.EnqueueRequestsFromMapFunc(wakeable(mgr.GetClient())))).
		WatchesRawSource(source.Channel(idle, &handler.EnqueueRequestForObject{})).
		Complete(reconciler)
	if err != nil {
		return fmt.Errorf("set up the controller of activators: %w", err)
	}
	listens := &listener{announcements: parts.Announcements, memories: reconciler.memories, clock: reconciler.clock, requests: idle}
	return addPart(mgr, probes, listens)
}

func addPart(mgr ctrl.Manager, parts ...manager.Runnable) error {
	for _, part := range parts {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("set up the controller of activators: %w", err)
		}
	}
	return nil
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
