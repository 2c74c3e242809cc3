package serverless

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// Leave removes the parts of all Serverlesses and their finalizers, for when no operator runs any more. The Serverlesses and the
// Functions stay: an operator that comes later goes on with them.
func Leave(ctx context.Context, c client.Client, binding string) error {
	r := &Reconciler{
		client: c, live: c, applier: kube.NewApplierAs(c, kube.OperatorFieldOwner),
		installation: &resources.Installation{Binding: binding},
	}
	all := &operatorv1alpha1.ServerlessList{}
	if err := c.List(ctx, all); err != nil {
		if meta.IsNoMatchError(err) {
			return nil // nobody knows what a Serverless is
		}
		return fmt.Errorf("list Serverlesses: %w", err)
	}
	for i := range all.Items {
		one := &all.Items[i]
		err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			left, err := r.remove(ctx, one.Namespace, isOurs)
			if err == nil && !left && one.Status.Served == operatorv1alpha1.ServedTrue {
				left, err = r.removeLock(ctx, one.Namespace)
			}
			return !left, err
		})
		if err != nil {
			return fmt.Errorf("remove what Serverless %q has brought: %w", client.ObjectKeyFromObject(one), err)
		}
		if err := r.setFinalizer(ctx, one, controllerutil.RemoveFinalizer); err != nil {
			return err
		}
	}
	return nil
}
