package function

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// concerns reports for which Functions a Secret may choose the registry.
type concerns func(secret client.ObjectKey) (all, namespace bool)

// builders finds the Functions whose builds or pods use a Secret, or that a
// Secret was made for.
func builders(reader client.Reader, concerns concerns) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, secret client.Object) []reconcile.Request {
		if own := functionOfPod(ctx, secret); own != nil {
			return own
		}
		within := []client.ListOption{client.UnsafeDisableDeepCopy}
		switch everywhere, here := concerns(client.ObjectKeyFromObject(secret)); {
		case everywhere:
		case here:
			within = append(within, client.InNamespace(secret.GetNamespace()))
		default:
			within = append(within, client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretIndex: secret.GetName()})
		}
		functions := &v1alpha2.FunctionList{}
		if err := reader.List(ctx, functions, within...); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list the functions that are built with a secret")
			return nil
		}
		requests := make([]reconcile.Request, len(functions.Items))
		for i := range functions.Items {
			requests[i].NamespacedName = client.ObjectKeyFromObject(&functions.Items[i])
		}
		return requests
	})
}

// jobs finds the Function of a build, and notifies the queue of the change.
func jobs(changed func()) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, job client.Object) []reconcile.Request {
		changed()
		return functionOfPod(ctx, job)
	})
}
