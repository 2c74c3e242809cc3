package activator

import (
	"context"
	"errors"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// checkDelay is how soon an activator is asked again that has not answered for the Function.
	checkDelay = 500 * time.Millisecond
	// portDelay is how soon a Function without a port asks again.
	portDelay = time.Minute
	// foreignDelay is how soon a slice of another owner that has the name of ours is looked at again.
	foreignDelay = 30 * time.Second
)

// activators say whose they are.
type activators interface {
	FunctionAt(ctx context.Context, address string, port int32) (types.UID, error)
}

// Reconciler keeps the slices that list activators.
type Reconciler struct {
	client         client.Client // reads from the cache and writes
	applier        *kube.Applier
	recorder       events.EventRecorder
	clock          clock.PassiveClock
	gatewayService types.NamespacedName
	keda           func(context.Context) (bool, error)
	lost           func(address string) bool
	activators     activators
	memories       *memories
	ports          *ports
	metrics        *metrics
}

// Reconcile makes the slices of one Function what they should be.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s, err := r.gather(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	families := s.families()
	if err := r.remove(ctx, s, families); err != nil {
		return kube.Result(err)
	}
	if !s.wanted {
		r.forget(s)
		return ctrl.Result{}, nil
	}
	if len(families) == 0 {
		return ctrl.Result{}, nil // there has never been a gateway
	}
	port, err := r.portOf(ctx, s)
	if err != nil {
		return kube.Result(err)
	}
	listed, after := r.memories.decide(s.key, s.ready, s.isListed(), s.now)
	complete, err := r.write(ctx, s, families, port, listed)
	if !complete && (after == 0 || after > checkDelay) {
		after = checkDelay
	}
	if err != nil {
		return kube.Result(err)
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// isListed reports whether a slice of the Function lists an activator.
func (s *scope) isListed() bool {
	for _, listing := range s.listings() {
		if len(listing.Addresses) > 0 {
			return true
		}
	}
	return false
}

// remove deletes the slices that should not be there.
func (r *Reconciler) remove(ctx context.Context, s *scope, families []discoveryv1.AddressType) error {
	var errs []error
	for i := range s.ours {
		slice := &s.ours[i]
		if s.keeps(slice, families) || !slice.DeletionTimestamp.IsZero() {
			continue
		}
		stub := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name}}
		err := r.client.Delete(ctx, stub, client.Preconditions{UID: new(slice.UID)})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue // it is gone, or another one has its name
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("delete EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err))
			continue
		}
		if isForged(slice) {
			r.metrics.forged.Inc()
			ctrl.LoggerFrom(ctx).Info("deleted an EndpointSlice that claimed to list activators and was not written by this controller",
				"slice", slice.Name)
		}
	}
	return errors.Join(errs...)
}

// forget drops what is remembered of a Function that HTTP does not wake, or no longer.
func (r *Reconciler) forget(s *scope) {
	if !r.memories.forget(s.key) {
		return
	}
	r.ports.release(s.key, s.now)
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		r.applier.Forget(types.NamespacedName{Namespace: s.key.Namespace, Name: activation.SliceName(s.key.Name, family)})
	}
}
