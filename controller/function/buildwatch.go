package function

import (
	"context"
	"slices"

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
		everywhere, here := concerns(client.ObjectKeyFromObject(secret))
		functions := &v1alpha2.FunctionList{}
		var within []client.ListOption
		if !everywhere {
			within = append(within, client.InNamespace(secret.GetNamespace()))
		}
		if err := reader.List(ctx, functions, within...); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list the functions that are built with a secret")
			return nil
		}
		var requests []reconcile.Request
		for i := range functions.Items {
			fn := &functions.Items[i]
			if everywhere || here || slices.Contains(buildSecrets(fn), secret.GetName()) || mounts(fn, secret.GetName()) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(fn)})
			}
		}
		return requests
	})
}

// mounts reports whether pods of the Function need a Secret to start.
func mounts(fn *v1alpha2.Function, secret string) bool {
	return slices.ContainsFunc(fn.Spec.SecretMounts, func(mount v1alpha2.SecretMount) bool { return mount.SecretName == secret })
}

// jobs finds the Function of a build, and notifies the queue of the change.
func jobs(changed func()) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, job client.Object) []reconcile.Request {
		changed()
		return functionOfPod(ctx, job)
	})
}
