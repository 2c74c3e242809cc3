package workloads

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// maxConcurrentReconciles bounds the Services that are worked on at a time.
const maxConcurrentReconciles = 4

// Setup adds the controller to a manager with the cache of the Function controller. It runs on the leader. settings
// returns those that Functions are made with.
func Setup(mgr ctrl.Manager, settings func() *resources.Settings) error {
	r := &Reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), applier: kube.NewApplier(mgr.GetClient()),
		recorder: mgr.GetEventRecorder("workloads"), settings: settings, said: map[types.NamespacedName]notice{},
	}
	earlier := make(chan event.GenericEvent)
	err := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Named("workload").
		Watches(&corev1.Service{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(asksToScale())).
		WatchesRawSource(source.Channel(earlier, &handler.EnqueueRequestForObject{})).
		Watches(kube.ScaledObjectDefinition(), handler.EnqueueRequestsFromMapFunc(scaledServices(mgr.GetClient()))).
		Complete(r)
	if err == nil {
		err = mgr.Add(&leftovers{live: mgr.GetAPIReader(), requests: earlier})
	}
	if err != nil {
		return fmt.Errorf("set up the controller of workloads: %w", err)
	}
	return nil
}

// asksToScale passes Services that have an annotation that asks for it, or have lost it.
func asksToScale() predicate.Predicate {
	asks := func(object client.Object) bool {
		service, ok := object.(*corev1.Service)
		if !ok {
			return false
		}
		_, names := service.Annotations[v1alpha2.AnnotationScaleTarget]
		return names || wakesNothing(service)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return asks(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return asks(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return asks(e.ObjectOld) || asks(e.ObjectNew) },
	}
}

// scaledServices finds the Services whose targets KEDA scales once it is installed, and no longer when it is removed.
func scaledServices(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		services := &corev1.ServiceList{}
		if err := reader.List(ctx, services, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list the Services to reconcile after a change of KEDA")
			return nil
		}
		var requests []reconcile.Request
		for i := range services.Items {
			if _, names := services.Items[i].Annotations[v1alpha2.AnnotationScaleTarget]; names {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&services.Items[i])})
			}
		}
		return requests
	}
}

// leftovers requests the Services that scale something when the process starts: some may have lost the annotation meanwhile.
type leftovers struct {
	live     client.Reader
	requests chan<- event.GenericEvent
}

// Start implements manager.Runnable.
func (l *leftovers) Start(ctx context.Context) error {
	for _, kind := range scalerKinds() {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		err := l.live.List(ctx, found, client.HasLabels{v1alpha2.LabelScalesService})
		if err != nil && !meta.IsNoMatchError(err) && ctx.Err() == nil {
			return fmt.Errorf("list what scales for Services: %w", err)
		}
		for i := range found.Items {
			key := client.ObjectKeyFromObject(&found.Items[i])
			select {
			case l.requests <- event.GenericEvent{Object: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}
