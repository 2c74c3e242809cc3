package door

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/controller/keyring"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
)

// Options configures the controller of Doors.
type Options struct {
	Share door.Share
}

// DefaultOptions returns the chart's defaults.
func DefaultOptions() Options { return Options{Share: door.DefaultShare()} }

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Add(&o.Share)
}

// Reports are what bridges tell about requests.
type Reports interface {
	// WatchDoorReports calls apply with each report, one at a time, until ctx ends.
	WatchDoorReports(ctx context.Context, apply func(data []byte)) error
}

// Parts are what the controller works with.
type Parts struct {
	Hosts   Hosts
	Changed <-chan event.GenericEvent // Doors of whose hosts something has changed
	Reports Reports
	Keyring *keyring.Keyring
}

// hearInterval is between tries to hear of requests.
const hearInterval = 5 * time.Second

// Setup adds the controller to a manager. It runs on the leader, and begins when the API server serves Doors.
func Setup(mgr ctrl.Manager, parts Parts, o Options) error {
	r := &Reconciler{
		client: mgr.GetClient(), hosts: parts.Hosts, recorder: mgr.GetEventRecorder("doors"), share: o.Share,
		keys: parts.Keyring, clock: clock.RealClock{}, reports: map[types.UID]door.Report{},
	}
	return kube.WhenServed(mgr, v1alpha1.GroupVersion.WithKind("Door"), func() error { return r.start(mgr, parts) })
}

func (r *Reconciler) start(mgr ctrl.Manager, parts Parts) error {
	ofNamespace := handler.EnqueueRequestsFromMapFunc(r.doorsOfNamespace)
	err := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: 1}). // they share a Secret
											Named("door").
											Watches(&v1alpha1.Door{}, ofNamespace, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
											WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.doorsOfSecret)).
											WatchesRawSource(source.Channel(parts.Changed, ofNamespace)).
											Complete(r)
	if err == nil {
		err = mgr.Add(kube.Repeat(mgr.GetLogger(), "hear of requests to Doors", hearInterval, func(ctx context.Context) error {
			return parts.Reports.WatchDoorReports(ctx, r.Hear)
		}))
	}
	if err != nil {
		return fmt.Errorf("set up the controller of Doors: %w", err)
	}
	return nil
}

// doorsOfNamespace returns all Doors of a namespace: they share hosts and the namespace's share.
func (r *Reconciler) doorsOfNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return r.doors(ctx, object.GetNamespace(), func(*v1alpha1.Door) bool { return true })
}

// doorsOfSecret returns the Doors that name a Secret.
func (r *Reconciler) doorsOfSecret(ctx context.Context, object client.Object) []reconcile.Request {
	return r.doors(ctx, object.GetNamespace(), func(d *v1alpha1.Door) bool { return door.SecretName(d) == object.GetName() })
}

func (r *Reconciler) doors(ctx context.Context, namespace string, wanted func(*v1alpha1.Door) bool) []reconcile.Request {
	all := &v1alpha1.DoorList{}
	if r.client.List(ctx, all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy) != nil {
		return nil // each is looked at again after an interval
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if wanted(&all.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}
