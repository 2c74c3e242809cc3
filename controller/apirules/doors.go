package apirules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/door"
)

// DoorHost is what has become of the host of Doors.
type DoorHost struct {
	// Host of the requests; empty if Problem says why it is not served.
	Host string
	// Problem keeps all its Doors from being served.
	Problem string
	// Warning is a problem of some requests, such as those with tokens whose issuer does not answer.
	Warning string
	// Pending is what the host waits for.
	Pending string
	// Routed is true where a Gateway of Gateway API leads here, which ends TLS itself.
	Routed bool
}

// DoorHosts tells a controller of Doors what has become of their hosts.
type DoorHosts struct {
	changed chan event.GenericEvent
	table   *table

	mu     sync.Mutex
	routes map[types.NamespacedName]routeState
}

// NewDoorHosts returns DoorHosts for Options.
func NewDoorHosts() *DoorHosts {
	return &DoorHosts{changed: make(chan event.GenericEvent), routes: map[types.NamespacedName]routeState{}}
}

// Changed sends a Door of each namespace of whose hosts something has changed.
func (h *DoorHosts) Changed() <-chan event.GenericEvent { return h.changed }

// Of returns what has become of a host, false while that is not decided.
func (h *DoorHosts) Of(d *rousev1alpha1.Door) (DoorHost, bool) {
	name := apirule.DoorRuleOf(d)
	known, decided := h.table.of(name)
	if !decided {
		return DoorHost{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	host := hostOf(&known, h.routes[name])
	host.Routed = h.table.routed(&known.exposure)
	return host, true
}

// hostOf puts together what the status of an APIRule would say.
func hostOf(known *standing, route routeState) DoorHost {
	update := statusFor(known, route)
	host := DoorHost{Host: known.exposure.Host}
	switch {
	case known.exposure.Host == "" || len(known.exposure.Problems) > 0 || route.problem != "":
		host.Problem = cmp.Or(route.problem, known.exposure.Problems.String(), update.description)
	case update.passing:
		host.Pending = update.description
	case len(known.problems) > 0:
		host.Warning = known.problems.String()
	}
	return host
}

// settleDoors writes the HTTPRoute of a host of Doors, and has their controller look.
func (r *Reconciler) settleDoors(ctx context.Context, name types.NamespacedName) error {
	hosts := r.options.DoorHosts
	if hosts == nil {
		return nil
	}
	known, decided := r.table.of(name)
	owner, err := r.oldestDoor(ctx, name)
	if err != nil {
		return err
	}
	if decided && owner != nil {
		state, err := r.route(ctx, owner, &known.exposure)
		if err != nil {
			return err
		}
		hosts.mu.Lock()
		hosts.routes[name] = state
		hosts.mu.Unlock()
	} else {
		hosts.mu.Lock()
		delete(hosts.routes, name)
		hosts.mu.Unlock()
	}
	if err := r.ungrant(ctx, name.Namespace); err != nil {
		return err
	}
	signal := &rousev1alpha1.Door{}
	signal.Namespace = name.Namespace
	select {
	case hosts.changed <- event.GenericEvent{Object: signal}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const doorRoutePrefix = "rouse-door-"

// oldestDoor returns the Door that owns the HTTPRoute of its host, nil without one.
func (r *Reconciler) oldestDoor(ctx context.Context, name types.NamespacedName) (*routeOwner, error) {
	doors := &rousev1alpha1.DoorList{}
	if err := r.client.List(ctx, doors, client.InNamespace(name.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the Doors of namespace %s: %w", name.Namespace, err)
	}
	all := slices.DeleteFunc(doors.Items, func(d rousev1alpha1.Door) bool { return d.DeletionTimestamp != nil || apirule.DoorRuleOf(&d) != name })
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	oldest := slices.MinFunc(all, func(a, b rousev1alpha1.Door) int { return door.ByAge(&a, &b) })
	return &routeOwner{&oldest, rousev1alpha1.GroupVersion, kindDoor, doorRoutePrefix + oldest.Name}, nil
}

// doorsOfRoute returns the host whose HTTPRoute has changed.
func (r *Reconciler) doorsOfRoute(ctx context.Context, route client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, owner := range route.GetOwnerReferences() {
		found := &rousev1alpha1.Door{}
		if owner.Kind == kindDoor && r.client.Get(ctx, client.ObjectKey{Namespace: route.GetNamespace(), Name: owner.Name}, found) == nil {
			requests = append(requests, reconcile.Request{NamespacedName: apirule.DoorRuleOf(found)})
		}
	}
	return requests
}
