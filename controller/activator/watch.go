package activator

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
)

// scalingDiffers reports whether a Function's condition says something else of KEDA: it says when KEDA comes and goes.
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

// endpointsChanged passes changes of slices of ours, and of others' endpoints.
func endpointsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, _ := e.ObjectOld.(*discoveryv1.EndpointSlice)
		is, _ := e.ObjectNew.(*discoveryv1.EndpointSlice)
		return was == nil || is == nil || activation.IsOurs(was) || activation.IsOurs(is) ||
			indexService(was)[0] != indexService(is)[0] || !apiequality.Semantic.DeepEqual(was.Endpoints, is.Endpoints)
	}}
}

// functionsOf finds whom a slice concerns: the Function of that name, if it is one, or all when it lists gateways.
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

// wakeable finds all Functions that HTTP may wake.
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
		return requests
	}
}
