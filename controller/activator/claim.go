package activator

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

// portOf is the port of the Function's activators. After a restart it is the one that the slices have, unless another
// Function has it with more right.
func (r *Reconciler) portOf(ctx context.Context, s *scope) (int32, error) {
	if port, ok := r.ports.of(s.key); ok {
		return port, nil
	}
	for _, own := range s.listings() {
		contested, err := r.isContested(ctx, own)
		if err != nil {
			return 0, err
		}
		if !contested && r.ports.claim(s.key, own.Port) {
			return own.Port, nil
		}
		ctrl.LoggerFrom(ctx).Info("another Function has the port of these activators, so they move", "port", own.Port)
	}
	port, err := r.ports.allocate(s.key, s.fn.UID, func(port int32) bool { return r.isShown(ctx, s.key, port) }, s.now)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("no port is left for the activators of a Function")
		r.recorder.Eventf(s.fn, nil, corev1.EventTypeWarning, "NoActivatorPort", "ListActivators", "%s", err.Error())
		return 0, kube.Waiting(err, portDelay)
	}
	return port, nil
}

// isShown reports whether a slice of another Function has a port.
func (r *Reconciler) isShown(ctx context.Context, function types.NamespacedName, port int32) bool {
	others, err := r.othersAt(ctx, function, port)
	return err != nil || len(others) > 0
}

// isContested reports whether another Function that HTTP may wake has an older slice with this port.
func (r *Reconciler) isContested(ctx context.Context, own aged) (bool, error) {
	others, err := r.othersAt(ctx, own.Function, own.Port)
	if err != nil {
		return false, err
	}
	for _, other := range others {
		if !other.isOlder(own) {
			continue
		}
		s := &scope{key: other.Function}
		wanted, err := r.gatherFunction(ctx, s)
		if err != nil {
			return false, err
		}
		if wanted && s.fn.UID == other.UID {
			return true, nil
		}
	}
	return false, nil
}

// othersAt are the listings of other Functions with a port.
func (r *Reconciler) othersAt(ctx context.Context, function types.NamespacedName, port int32) ([]aged, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := r.client.List(ctx, list, client.MatchingFields{portIndex: strconv.Itoa(int(port))}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices with port %d: %w", port, err)
	}
	var others []aged
	for i := range list.Items {
		if listing, ok := activation.ListingOf(&list.Items[i]); ok && listing.Function != function {
			others = append(others, aged{Listing: listing, created: list.Items[i].CreationTimestamp.Time})
		}
	}
	return others, nil
}
