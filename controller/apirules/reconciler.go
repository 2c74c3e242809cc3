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

// maxNamed is how many gateways a description names.
const maxNamed = 3

// byPlace sorts problems by rule and attribute, because gateways say them in no order.
func byPlace(a, b apirule.Problem) int {
	return cmp.Or(cmp.Compare(a.Closes, b.Closes), cmp.Compare(a.Attribute, b.Attribute), cmp.Compare(a.Message, b.Message))
}

// statusUpdate is a state and why. It is passing when something is on its way that needs nobody to act, and stalled when only a
// change of the APIRule helps.
type statusUpdate struct {
	state       v2.State
	description string
	passing     bool
	stalled     bool
}

// statusFor says what a status has to say of an APIRule and its HTTPRoute.
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

// isWrong reports whether something is wrong in the APIRule itself.
func isWrong(problems apirule.Problems) bool {
	return slices.ContainsFunc(problems, func(p apirule.Problem) bool { return !p.IsOfOthers() })
}

// behind names the gateways that serve the APIRule otherwise.
func behind(s *standing) string {
	named := s.behind[:min(len(s.behind), maxNamed)]
	text := fmt.Sprintf("%d of %d gateways have not loaded it yet: %s", len(s.behind), s.gateways, strings.Join(named, ", "))
	if more := len(s.behind) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// setStatus says it, and when, unless it was said before.
func setStatus(status *v2.APIRuleStatus, generation int64, said statusUpdate, now time.Time) {
	description := kube.Truncate(said.description, kube.MaxConditionMessage)
	if status.State != said.state || status.Description != description || status.LastProcessedTime == nil {
		status.LastProcessedTime, status.State, status.Description = new(metav1.NewTime(now)), said.state, description
	}
	status.ObservedGeneration = generation
	summaryOf(said, generation).Set(&status.Conditions, now)
}

// summaryOf says the same to tools that know nothing of APIRules.
func summaryOf(said statusUpdate, generation int64) kube.Summary {
	const kind = "status.description"
	state := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: string(said.state), Message: said.description}
	switch {
	case said.state == v2.StateReady:
		state.Status = metav1.ConditionTrue
	case said.passing:
		state.Status, state.Reason = metav1.ConditionUnknown, kube.ReasonProgressing
	}
	return kube.Summarize([]metav1.Condition{state}, generation, kube.Aspect{Type: kind, Stalled: said.stalled})
}
