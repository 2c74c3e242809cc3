package activator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

// write applies a slice for each family. It is not complete while an activator that should be listed is not.
func (r *Reconciler) write(
	ctx context.Context, s *scope, families []discoveryv1.AddressType, port int32, listed bool,
) (complete bool, err error) {
	complete = true
	var errs []error
	for _, family := range families {
		live, err := r.liveSlice(ctx, s, family)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var answering []gateway
		if listed {
			ready := s.gateways.ready[family]
			answering = r.verified(ctx, s, known(live, s.fn.UID, port), port, ready)
			complete = complete && len(answering) == len(ready)
		}
		errs = append(errs, r.apply(ctx, s, family, port, answering, live))
	}
	return complete, errors.Join(errs...)
}

func (r *Reconciler) apply(
	ctx context.Context, s *scope, family discoveryv1.AddressType, port int32, listed []gateway, live *discoveryv1.EndpointSlice,
) error {
	desired, err := sliceOf(s, family, port, listed)
	if err != nil {
		return err
	}
	var present metav1.Object
	if live != nil {
		present = live
	}
	_, err = r.applier.Apply(ctx, desired, present)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // nothing of it will be there for long
	}
	return err
}

// liveSlice is the slice that has the name of ours. One of another owner is left as it is, and named.
func (r *Reconciler) liveSlice(ctx context.Context, s *scope, family discoveryv1.AddressType) (*discoveryv1.EndpointSlice, error) {
	slice := &discoveryv1.EndpointSlice{}
	key := types.NamespacedName{Namespace: s.key.Namespace, Name: activation.SliceName(s.key.Name, family)}
	err := r.client.Get(ctx, key, slice)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get EndpointSlice %q: %w", key, err)
	}
	if err := kube.CheckOwner(slice, "EndpointSlice", s.service, schema.GroupKind{Kind: kindService}); err != nil {
		return nil, kube.Waiting(err, foreignDelay)
	}
	return slice, nil
}

// verified are the gateways that are listed already, and those that answer for this Function at its port.
func (r *Reconciler) verified(ctx context.Context, s *scope, known map[string]bool, port int32, ready []gateway) []gateway {
	answers := make([]bool, len(ready))
	var asked sync.WaitGroup
	for i, each := range ready {
		if known[each.address] {
			answers[i] = true
			continue
		}
		asked.Go(func() {
			function, err := r.activators.FunctionAt(ctx, each.address, port)
			answers[i] = err == nil && function == s.fn.UID
		})
	}
	asked.Wait()
	var found []gateway
	for i, each := range ready {
		if answers[i] {
			found = append(found, each)
		}
	}
	return found
}
