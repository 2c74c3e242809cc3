package apirules

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/controller/activator"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/watch"
)

// Options configures the APIRule controller.
type Options struct {
	watch.APIRuleSettings
	// Entrance is the Service to which HTTPRoutes lead, at entrancePort.
	Entrance types.NamespacedName
	// Gateways is the Service whose endpoints are queried for what they have loaded. It has no flag of its own.
	Gateways types.NamespacedName
	// DoorHosts hears what has become of the hosts of Doors; nil where there are none.
	DoorHosts *DoorHosts
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	o.APIRuleSettings.Flags(fs)
	fs.Strings(&o.Authorizers, "authorizers", "names that extAuth of APIRules may use, separated by commas")
	fs.Service(&o.Entrance, "apirules-service", "Service to which HTTPRoutes of APIRules lead, namespace/name, at its port 80")
	fs.Require(!o.Enabled || o.Gateways.Name != "", "--apirules: --gateway-service must say where the gateways are")
	fs.Require(!o.Enabled || !o.GatewayAPI || o.Entrance.Name != "", "--gateway-api: --apirules-service must say where HTTPRoutes lead")
}

const (
	// maxConcurrentReconciles bounds the concurrent reconciliations.
	maxConcurrentReconciles = 4
	// syncTimeout is how long the controller waits for its kinds to be served. It must not end the process, in which
	// other controllers run.
	syncTimeout = 10 * 365 * 24 * time.Hour
)

// Transform reduces an HTTPRoute of another owner to its owner, and other objects to what decisions depend on. Setup
// relies on it; pass it to the manager as its DefaultTransform. The cache must hold Services as function.CacheObjects
// reduces them.
func Transform(object any) (any, error) {
	route, ok := object.(*gatewayapi.HTTPRoute)
	if !ok {
		return watch.TransformAPIRules(object)
	}
	for _, owner := range route.OwnerReferences {
		if owner.Kind == kindAPIRule || owner.Kind == kindDoor {
			return route, nil
		}
	}
	route.Spec, route.Status = gatewayapi.HTTPRouteSpec{}, gatewayapi.HTTPRouteStatus{}
	return route, nil
}

// Setup adds the APIRule controller to a manager whose cache is limited by Transform. Where APIRules are not served it
// does nothing: another controller may reconcile them.
func Setup(mgr ctrl.Manager, dial activator.Dial, options Options) error {
	if !options.Enabled {
		return nil
	}
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	changes, decided := make(chan event.GenericEvent), make(chan struct{}, 1)
	stand := newTable(options.routed)
	reconciler := &Reconciler{
		client:   mgr.GetClient(),
		applier:  kube.NewApplier(mgr.GetClient()),
		recorder: mgr.GetEventRecorder("apirule-controller"),
		clock:    clock.RealClock{},
		table:    stand,
		options:  options,
	}
	if err := addController(mgr, reconciler, changes); err != nil {
		return err
	}
	if options.DoorHosts != nil {
		options.DoorHosts.table = stand
	}
	changed := func(ctx context.Context, names []types.NamespacedName) { request(ctx, changes, names) }
	asks := &poller{
		addresses: func(ctx context.Context) ([]string, error) {
			return activator.Gateways(ctx, mgr.GetClient(), options.Gateways)
		},
		gateways: newCaller(dial),
		table:    stand,
		changed:  changed,
		decided:  decided,
		clock:    clock.RealClock{},
		log:      mgr.GetLogger().WithName("apirule"),
	}
	decides := manager.RunnableFunc(func(ctx context.Context) error {
		return watch.APIRules(ctx, mgr.GetCache(), options.APIRuleSettings, func(all []apirule.Exposure) {
			names, err := stand.decide(all)
			if err != nil {
				mgr.GetLogger().Error(err, "cannot compare APIRules with those of gateways")
				return
			}
			notify(decided)
			changed(ctx, names)
		})
	})
	for _, part := range []manager.Runnable{asks, decides} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("set up the APIRule controller: %w", err)
		}
	}
	return nil
}

func addController(mgr ctrl.Manager, reconciler *Reconciler, changes <-chan event.GenericEvent) error {
	b := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles, CacheSyncTimeout: syncTimeout}).
		Named("apirule").
		For(&v2.APIRule{}).
		WatchesRawSource(source.Channel(changes, &handler.EnqueueRequestForObject{}))
	if reconciler.options.GatewayAPI {
		if err := watchRoutes(mgr, b, reconciler); err != nil {
			return err
		}
	}
	if err := b.Complete(reconciler); err != nil {
		return fmt.Errorf("set up the APIRule controller: %w", err)
	}
	return nil
}

// watchRoutes adds the watches for Gateway API. Grants have a cache of their own, which is limited to one namespace.
func watchRoutes(mgr ctrl.Manager, b *builder.Builder, reconciler *Reconciler) error {
	options := &reconciler.options
	grants, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{options.Entrance.Namespace: {}},
	})
	if err != nil {
		return fmt.Errorf("make a cache of ReferenceGrants: %w", err)
	}
	if err := mgr.Add(grants); err != nil {
		return fmt.Errorf("set up the APIRule controller: %w", err)
	}
	reconciler.grants = grants
	isEntrance := predicate.NewPredicateFuncs(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == options.Entrance })
	// An HTTPRoute has the name of its APIRule, and so has a conflicting one of another owner.
	b.Watches(&gatewayapi.HTTPRoute{}, &handler.EnqueueRequestForObject{}).
		Watches(&gatewayapi.HTTPRoute{}, handler.EnqueueRequestsFromMapFunc(reconciler.doorsOfRoute)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(allGrants(reconciler.table)), builder.WithPredicates(isEntrance)).
		WatchesRawSource(source.Kind(grants, grantMetadata(),
			handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, grant *metav1.PartialObjectMetadata) []reconcile.Request {
				if namespace, ours := options.grantedTo(grant); ours {
					return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace}}}
				}
				return nil
			})))
	return nil
}

// allGrants returns a request for each namespace with routed APIRules.
func allGrants(stand *table) handler.MapFunc {
	return func(context.Context, client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, namespace := range stand.routedNamespaces() {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace}})
		}
		return requests
	}
}

// request enqueues APIRules.
func request(ctx context.Context, changes chan<- event.GenericEvent, names []types.NamespacedName) {
	for _, name := range names {
		rule := &v2.APIRule{}
		rule.Namespace, rule.Name = name.Namespace, name.Name
		select {
		case changes <- event.GenericEvent{Object: rule}:
		case <-ctx.Done():
			return
		}
	}
}

// notify wakes the reader of the channel, unless a notification is pending.
func notify(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
