package apirules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/kube"
)

// Reconciler writes the status of APIRules, their HTTPRoutes and the grants.
type Reconciler struct {
	client   client.Client // reads from the cache and writes
	grants   client.Reader // grants in the gateways' namespace; nil without Gateway API
	applier  *kube.Applier
	recorder events.EventRecorder
	clock    clock.PassiveClock
	table    *table
	options  Options
}

// Reconcile reconciles one APIRule, the host of Doors or, without a name, the grant for a namespace.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	select {
	case <-r.table.complete:
	case <-ctx.Done():
		return ctrl.Result{}, ctx.Err()
	}
	if request.Name == "" {
		return kube.Result(r.grant(ctx, request.Namespace))
	}
	if apirule.IsDoorRule(request.Name) {
		return kube.Result(r.settleDoors(ctx, request.NamespacedName))
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
		return ctrl.Result{}, nil // enqueued again once it is decided
	}
	return kube.Result(r.settle(ctx, rule, &known))
}

// settle writes the status, HTTPRoute and grant of an APIRule.
func (r *Reconciler) settle(ctx context.Context, rule *v2.APIRule, known *standing) error {
	route, err := r.route(ctx, ownedBy(rule), &known.exposure)
	if err != nil {
		return err
	}
	if err := r.ungrant(ctx, rule.Namespace); err != nil {
		return err
	}
	before, update := rule.DeepCopy(), statusFor(known, route)
	setStatus(&rule.Status, rule.Generation, update, r.clock.Now())
	if err := kube.PatchStatus(ctx, r.client, before, rule); err != nil {
		return err
	}
	r.announce(before, rule, update)
	return nil
}

// ungrant deletes the grant of a namespace that no longer needs it.
func (r *Reconciler) ungrant(ctx context.Context, namespace string) error {
	if !r.options.GatewayAPI || r.table.isRouted(namespace) {
		return nil
	}
	return r.grant(ctx, namespace)
}

// announce emits an event when the state of an APIRule changes, unless the new state is transient.
func (r *Reconciler) announce(before, after *v2.APIRule, update statusUpdate) {
	if before.Status.State == after.Status.State || update.passing {
		return
	}
	kind := corev1.EventTypeWarning
	if update.state == v2.StateReady {
		kind = corev1.EventTypeNormal
	}
	r.recorder.Eventf(after, nil, kind, string(update.state), "Reconcile", "%s", kube.Truncate(after.Status.Description, kube.MaxEventNote))
}

// maxNamed bounds the gateways that a description names.
const maxNamed = 3

// byPlace sorts problems by rule and attribute, because gateways report them in no order.
func byPlace(a, b apirule.Problem) int {
	return cmp.Or(cmp.Compare(a.Closes, b.Closes), cmp.Compare(a.Attribute, b.Attribute), cmp.Compare(a.Message, b.Message))
}

// statusUpdate is a state and its description. passing means that the state resolves without a user's action, stalled
// that only a change of the APIRule resolves it.
type statusUpdate struct {
	state       v2.State
	description string
	passing     bool
	stalled     bool
}

// statusFor returns the state of an APIRule and its HTTPRoute.
func statusFor(s *standing, route routeState) statusUpdate {
	switch {
	case len(s.exposure.Problems) > 0:
		all := slices.Concat(s.exposure.Problems, s.problems)
		return statusUpdate{state: v2.StateError, description: all.Description(), stalled: isWrong(all)}
	case route.problem != "":
		return statusUpdate{state: v2.StateError, description: route.problem}
	case len(s.problems) > 0:
		return statusUpdate{state: v2.StateWarning, description: s.problems.Description(), stalled: isWrong(s.problems)}
	case s.gateways == 0:
		return statusUpdate{state: v2.StateWarning, description: "No gateway is ready", passing: true}
	case len(s.behind) > 0:
		return statusUpdate{state: v2.StateWarning, description: behind(s), passing: true}
	case route.pending != "":
		return statusUpdate{state: v2.StateWarning, description: route.pending, passing: true}
	default:
		return statusUpdate{state: v2.StateReady, description: s.exposure.Problems.Description()}
	}
}

// isWrong reports whether the APIRule itself has a problem.
func isWrong(problems apirule.Problems) bool {
	return slices.ContainsFunc(problems, func(p apirule.Problem) bool { return !p.IsOfOthers() })
}

// behind names the gateways that do not serve the current APIRule yet.
func behind(s *standing) string {
	named := s.behind[:min(len(s.behind), maxNamed)]
	text := fmt.Sprintf("%d of %d gateways have not loaded it yet: %s", len(s.behind), s.gateways, strings.Join(named, ", "))
	if more := len(s.behind) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// setStatus writes the state and its time, unless the state is unchanged.
func setStatus(status *v2.APIRuleStatus, generation int64, update statusUpdate, now time.Time) {
	description := kube.Truncate(update.description, kube.MaxConditionMessage)
	if status.State != update.state || status.Description != description || status.LastProcessedTime == nil {
		status.LastProcessedTime, status.State, status.Description = new(metav1.NewTime(now)), update.state, description
	}
	status.ObservedGeneration = generation
	summaryOf(update, generation).Set(&status.Conditions, now)
}

// summaryOf returns the same state as a condition, for tools that do not support APIRules.
func summaryOf(update statusUpdate, generation int64) kube.Summary {
	const kind = "status.description"
	state := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: string(update.state), Message: update.description}
	switch {
	case update.state == v2.StateReady:
		state.Status = metav1.ConditionTrue
	case update.passing:
		state.Status, state.Reason = metav1.ConditionUnknown, kube.ReasonProgressing
	}
	return kube.Summarize([]metav1.Condition{state}, generation, kube.Aspect{Type: kind, Stalled: update.stalled})
}
