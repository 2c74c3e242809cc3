package apirules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/kube"
)

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
