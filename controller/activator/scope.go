package activator

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/workload"
)

// scope is everything that one reconciliation learns about a Function. Its objects are the cache's: nothing changes them.
type scope struct {
	key types.NamespacedName
	now time.Time

	// What is there. Nil means that there is none.
	fn      *v1alpha2.Function
	service *corev1.Service
	// ours are the slices that claim to be of this controller.
	ours     []discoveryv1.EndpointSlice
	gateways gateways
	// ready is true when a pod is.
	ready bool

	// wanted is true when HTTP may wake the Function.
	wanted bool
}

// gather reads what is there.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*scope, error) {
	s := &scope{key: key, now: r.clock.Now()}
	all, err := slicesOf(ctx, r.client, key)
	if err != nil {
		return nil, err
	}
	s.ready = isAwake(all)
	for i := range all {
		if activation.IsOurs(&all[i]) {
			s.ours = append(s.ours, all[i])
		}
	}
	if s.wanted, err = r.gatherFunction(ctx, s); err != nil || !s.wanted {
		return s, err
	}
	list, err := slicesOf(ctx, r.client, r.gatewayService)
	if err != nil {
		return nil, err
	}
	s.gateways = gatewaysOf(list, r.lost)
	return s, nil
}

// gatherFunction reports whether HTTP may wake the Function, and fills in what that depends on.
func (r *Reconciler) gatherFunction(ctx context.Context, s *scope) (bool, error) {
	if s.key.Name == "" { // of slices without the label
		return false, nil
	}
	fn := &v1alpha2.Function{}
	if err := r.client.Get(ctx, s.key, fn, client.UnsafeDisableDeepCopy); err != nil { // its source may be long
		return false, ignoreNotFound(err, "get Function %q: %w", s.key)
	}
	service := &corev1.Service{}
	if err := r.client.Get(ctx, s.key, service, client.UnsafeDisableDeepCopy); err != nil {
		return false, ignoreNotFound(err, "get Service %q: %w", s.key)
	}
	s.fn, s.service = fn, service
	if !mayBeWoken(fn) || !metav1.IsControlledBy(service, fn) || !service.DeletionTimestamp.IsZero() {
		return false, nil
	}
	installed, err := r.keda(ctx)
	return installed && err == nil, err
}

func ignoreNotFound(err error, format string, key types.NamespacedName) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf(format, key, err)
}

// mayBeWoken reports whether a Function may sleep, and lets HTTP wake it.
func mayBeWoken(fn *v1alpha2.Function) bool {
	if !fn.DeletionTimestamp.IsZero() || fn.Spec.ScaleConfig == nil {
		return false
	}
	tuning, _ := workload.TuningOf(fn.Annotations, workload.Tuning{}) // the Function's status says what is wrong
	low, _ := workload.ReplicaBounds(fn)
	return low == 0 && tuning.HTTPWake
}

// families are those that the Function needs a slice of: the gateways', or while there is no gateway those that it has.
func (s *scope) families() []discoveryv1.AddressType {
	if len(s.gateways.families) > 0 {
		return s.gateways.families
	}
	var present []discoveryv1.AddressType
	for i := range s.ours {
		if s.ours[i].AddressType != discoveryv1.AddressTypeFQDN {
			present = append(present, s.ours[i].AddressType)
		}
	}
	slices.Sort(present)
	return slices.Compact(present)
}

// listings are what the slices of the Function say, the oldest first.
func (s *scope) listings() []aged {
	var found []aged
	for i := range s.ours {
		slice := &s.ours[i]
		listing, ok := activation.ListingOf(slice)
		if ok && listing.UID == s.fn.UID && isControlledBy(slice, s.service.GetUID()) {
			found = append(found, aged{Listing: listing, created: slice.CreationTimestamp.Time})
		}
	}
	slices.SortStableFunc(found, func(a, b aged) int { return a.created.Compare(b.created) })
	return found
}

// aged is what a slice says, with its age.
type aged struct {
	activation.Listing
	created time.Time
}

// isOlder decides between two Functions with one port.
func (a aged) isOlder(b aged) bool {
	if !a.created.Equal(b.created) {
		return a.created.Before(b.created)
	}
	return a.Function.String() < b.Function.String()
}
