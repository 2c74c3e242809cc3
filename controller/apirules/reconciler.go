package apirules

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/kube"
)

// maxEventNote is the longest text that an event may have.
const maxEventNote = 1024

// Reconciler writes the status of APIRules, their HTTPRoutes and the grants.
type Reconciler struct {
	client   client.Client // reads from the cache and writes
	grants   client.Reader // of the namespace of the gateways; nil without Gateway API
	applier  *kube.Applier
	recorder events.EventRecorder
	clock    clock.PassiveClock
	table    *table
	options  Options
}

// Reconcile looks after one APIRule, or without a name after the grant for a namespace.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	select {
	case <-r.table.complete:
	case <-ctx.Done():
		return ctrl.Result{}, ctx.Err()
	}
	if request.Name == "" {
		return kube.Result(r.grant(ctx, request.Namespace))
	}
	rule := &v2.APIRule{}
	err := r.client.Get(ctx, request.NamespacedName, rule)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get APIRule %q: %w", request.NamespacedName, err)
	}
	if err != nil {
		r.applier.Forget(request.NamespacedName)
		return kube.Result(r.ungrant(ctx, request.Namespace))
	}
	known, decided := r.table.of(request.NamespacedName)
	if !decided || known.exposure.UID != rule.UID || known.exposure.Generation != rule.Generation {
		return ctrl.Result{}, nil // it will be decided, and then comes again
	}
	return kube.Result(r.settle(ctx, rule, &known))
}

// settle writes what follows from how an APIRule stands.
func (r *Reconciler) settle(ctx context.Context, rule *v2.APIRule, known *standing) error {
	route, err := r.route(ctx, rule, &known.exposure)
	if err != nil {
		return err
	}
	if err := r.ungrant(ctx, rule.Namespace); err != nil {
		return err
	}
	before, said := rule.DeepCopy(), statusFor(known, route)
	setStatus(&rule.Status, rule.Generation, said, r.clock.Now())
	if err := kube.PatchStatus(ctx, r.client, before, rule); err != nil {
		return err
	}
	r.announce(before, rule, said)
	return nil
}

// ungrant takes the grant from a namespace that needs none any more.
func (r *Reconciler) ungrant(ctx context.Context, namespace string) error {
	if !r.options.GatewayAPI || r.table.isRouted(namespace) {
		return nil
	}
	return r.grant(ctx, namespace)
}

// announce sends an event when the state of an APIRule changes, but for what passes by itself.
func (r *Reconciler) announce(before, after *v2.APIRule, said statusUpdate) {
	if before.Status.State == after.Status.State || said.passing {
		return
	}
	kind := corev1.EventTypeWarning
	if said.state == v2.StateReady {
		kind = corev1.EventTypeNormal
	}
	r.recorder.Eventf(after, nil, kind, string(said.state), "Reconcile", "%s", kube.Truncate(after.Status.Description, maxEventNote))
}
