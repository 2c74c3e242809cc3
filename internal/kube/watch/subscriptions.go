package watch

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

var errNotSynced = errors.New("the cache of Subscriptions is not in step yet")

// Subscriptions are those of the cluster, as they are written.
type Subscriptions struct{ cache cache.Cache }

// NewSubscriptions reads Subscriptions from c.
func NewSubscriptions(c cache.Cache) *Subscriptions { return &Subscriptions{cache: c} }

// Specs are those of all Subscriptions that are not being deleted, whether they make sense or not. Callers must not
// change them. It does not wait for the cache: before it is in step there is an error.
func (s *Subscriptions) Specs(ctx context.Context) ([]eventingv1alpha2.SubscriptionSpec, error) {
	informer, err := s.cache.GetInformer(ctx, &eventingv1alpha2.Subscription{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch Subscriptions: %w", err)
	}
	if !informer.HasSynced() {
		return nil, errNotSynced
	}
	var list eventingv1alpha2.SubscriptionList
	if err := s.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Subscriptions: %w", err)
	}
	specs := make([]eventingv1alpha2.SubscriptionSpec, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			specs = append(specs, list.Items[i].Spec)
		}
	}
	return specs, nil
}
