package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// Routes watches the Subscriptions of the cluster, and reports them as Routes of the data plane.
type Routes struct {
	cache  cache.Cache
	policy routing.Policy
	keys   types.NamespacedName // without a name: no route has keys
}

// NewRoutes returns Routes that read Subscriptions from c.
func NewRoutes(c cache.Cache, policy routing.Policy) *Routes {
	return &Routes{cache: c, policy: policy}
}

// WithKeys returns Routes that have the keys by which their deliveries are signed, from a Secret that DoorKeys lets the cache hold.
func (r *Routes) WithKeys(keys types.NamespacedName) *Routes {
	return &Routes{cache: r.cache, policy: r.policy, keys: keys}
}

// Watch calls apply with all routes, sorted by Subscription, until ctx ends.
func (r *Routes) Watch(ctx context.Context, apply func([]routing.Route)) error {
	changed := newSignal()
	remove, inStep, err := onChange(ctx, r.cache, &eventingv1alpha2.Subscription{}, func(before, after any) {
		if mayReroute(before, after) {
			changed.raise()
		}
	})
	if err != nil {
		return err
	}
	defer remove()
	waiting := []toolscache.InformerSynced{inStep}
	if r.keys.Name != "" {
		removeKeys, keysInStep, err := onChange(ctx, r.cache, &corev1.Secret{}, func(_, _ any) { changed.raise() })
		if err != nil {
			return err
		}
		defer removeKeys()
		waiting = append(waiting, keysInStep)
	}
	if ok, err := awaitSync(ctx, r.cache, waiting...); !ok {
		return err
	}
	return follow(ctx, changed, r.read, apply)
}

// mayReroute ignores updates of the status.
func mayReroute(before, after any) bool {
	old, ok := before.(*eventingv1alpha2.Subscription)
	if !ok {
		return true
	}
	updated, ok := after.(*eventingv1alpha2.Subscription)
	return !ok || old.Generation != updated.Generation || old.UID != updated.UID ||
		old.DeletionTimestamp.IsZero() != updated.DeletionTimestamp.IsZero()
}

func (r *Routes) read(ctx context.Context) ([]routing.Route, error) {
	var list eventingv1alpha2.SubscriptionList
	if err := r.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Subscriptions: %w", err)
	}
	ring, err := readKeys(ctx, r.cache, r.keys)
	if err != nil {
		return nil, err
	}
	routes := make([]routing.Route, 0, len(list.Items))
	for i := range list.Items {
		sub := &list.Items[i]
		if !sub.DeletionTimestamp.IsZero() {
			continue
		}
		route, err := routing.FromSubscription(sub, r.policy)
		if err != nil {
			continue // the controller reports it in the Subscription's status
		}
		if keys := ring.of(sub); route.Delivery.Webhook != nil && keys != nil {
			route.Delivery.Webhook.Keys = (*routing.SigningKeys)(keys)
		}
		routes = append(routes, route)
	}
	slices.SortFunc(routes, func(a, b routing.Route) int {
		return strings.Compare(a.Subscription.String(), b.Subscription.String())
	})
	return routes, nil
}

var errNotSynced = errors.New("the cache of Subscriptions is not in step yet")

// Subscriptions reads the Subscriptions of the cluster.
type Subscriptions struct{ cache cache.Cache }

// NewSubscriptions returns Subscriptions that are read from c.
func NewSubscriptions(c cache.Cache) *Subscriptions { return &Subscriptions{cache: c} }

// Specs returns the specs of all Subscriptions that are not being deleted, valid or not. Callers must not change them.
// It returns an error until the cache is in sync.
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
