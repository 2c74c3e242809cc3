package subscription

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

// Leave removes the finalizer of all Subscriptions once no controller runs any more that could release them. The
// Subscriptions stay: a later controller continues with them, and deletes the consumers of those that were deleted.
func Leave(ctx context.Context, c client.Client) error {
	r := &Reconciler{client: c}
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		all := &eventingv1alpha2.SubscriptionList{}
		if err := c.List(ctx, all); err != nil {
			if meta.IsNoMatchError(err) {
				return true, nil // the cluster does not serve Subscriptions
			}
			return false, err
		}
		left := false
		for i := range all.Items {
			if !controllerutil.ContainsFinalizer(&all.Items[i], eventingv1alpha2.Finalizer) {
				continue
			}
			left = true
			if err := r.setFinalizer(ctx, &all.Items[i], controllerutil.RemoveFinalizer); err != nil && !apierrors.IsConflict(err) {
				return false, err
			}
		}
		return !left, nil
	})
	if err != nil {
		return fmt.Errorf("remove the finalizers of Subscriptions: %w", err)
	}
	return nil
}
