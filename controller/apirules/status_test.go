package apirules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

func TestTheStateSaysWhatIsMostPressing(t *testing.T) {
	t.Parallel()
	written := apirule.Problem{Attribute: ".spec.rules", Message: "wrong"}
	keys := apirule.Problem{Attribute: ".spec.rules[0].jwt", Message: "no keys", Closes: apirule.RuleAt(0)}
	served := func(change ...func(*standing)) standing {
		s := standing{gateways: 2}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	wrong := func(s *standing) { s.exposure = apirule.Exposure{Problems: apirule.Problems{written}} }
	late := func(s *standing) { s.behind = []string{"10.0.0.1"} }
	unsure := func(s *standing) { s.problems = apirule.Problems{keys} }
	nobody := func(s *standing) { s.gateways = 0 }
	for name, tc := range map[string]struct {
		standing standing
		route    routeState
		want     statusUpdate
	}{
		"all is well": {served(), routeState{}, statusUpdate{state: v2.StateReady, description: "Reconciled successfully"}},
		"something is wrong in it": {
			served(wrong, late, nobody),
			routeState{problem: "HTTPRouteErrors: none"},
			statusUpdate{state: v2.StateError, description: "Validation errors: Attribute '.spec.rules': wrong", stalled: true},
		},
		"something is wrong in it and gateways see more": {
			served(wrong, unsure),
			routeState{},
			statusUpdate{state: v2.StateError, description: "Validation errors: Attribute '.spec.rules': wrong\nAttribute '.spec.rules[0].jwt': no keys", stalled: true},
		},
		"its HTTPRoute does not work": {
			served(late, unsure), routeState{problem: "HTTPRouteErrors: none"}, statusUpdate{state: v2.StateError, description: "HTTPRouteErrors: none"},
		},
		"gateways see a problem": {
			served(unsure, late),
			routeState{pending: "soon"},
			statusUpdate{state: v2.StateWarning, description: "Validation errors: Attribute '.spec.rules[0].jwt': no keys"},
		},
		"there is no gateway": {
			served(nobody), routeState{pending: "soon"}, statusUpdate{state: v2.StateWarning, description: "No gateway is ready", passing: true},
		},
		"a gateway is behind": {
			served(late),
			routeState{pending: "soon"},
			statusUpdate{state: v2.StateWarning, description: "1 of 2 gateways have not loaded it yet: 10.0.0.1", passing: true},
		},
		"many are": {
			standing{gateways: 9, behind: []string{"a", "b", "c", "d", "e"}},
			routeState{},
			statusUpdate{state: v2.StateWarning, description: "5 of 9 gateways have not loaded it yet: a, b, c and 2 more", passing: true},
		},
		"its HTTPRoute waits": {served(), routeState{pending: "soon"}, statusUpdate{state: v2.StateWarning, description: "soon", passing: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, statusFor(&tc.standing, tc.route))
		})
	}
}

func TestTheTimeOfAStatusIsThatOfItsLastChange(t *testing.T) {
	t.Parallel()
	first, later := time.Unix(100, 0), time.Unix(200, 0)
	ready := statusUpdate{state: v2.StateReady, description: "Reconciled successfully"}
	status := v2.APIRuleStatus{}
	setStatus(&status, 1, ready, first)
	require.Equal(t, v2.APIRuleStatus{
		State: v2.StateReady, Description: "Reconciled successfully", LastProcessedTime: new(metav1.NewTime(first)), ObservedGeneration: 1,
		Conditions: []metav1.Condition{{
			Type: "Ready", Status: "True", Reason: "Ready", Message: "Reconciled successfully", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(first),
		}},
	}, status)
	before := *status.DeepCopy()
	setStatus(&status, 1, ready, later)
	require.Equal(t, before, status)
	setStatus(&status, 2, statusUpdate{state: v2.StateError, description: "wrong"}, later)
	require.Equal(t, v2.StateError, status.State)
	require.Equal(t, "wrong", status.Description)
	require.Equal(t, metav1.NewTime(later), *status.LastProcessedTime)
	require.Equal(t, int64(2), status.ObservedGeneration)
}

func TestReadyAndStalledOfAnAPIRule(t *testing.T) {
	t.Parallel()
	written := apirule.Problem{Attribute: ".spec.rules", Message: "wrong"}
	absent := apirule.Problem{Attribute: ".spec.rules[0]", Message: "no Service", Closes: apirule.RuleAt(0)}
	taken := apirule.Problem{Attribute: ".spec.hosts[0]", Message: "Host is occupied by another APIRule"}
	standingWith := func(problems ...apirule.Problem) standing {
		return standing{gateways: 1, exposure: apirule.Exposure{Problems: problems}}
	}
	for name, tc := range map[string]struct {
		standing   standing
		route      routeState
		wantStatus metav1.ConditionStatus
		wantReason string
		stalled    bool
	}{
		"all is well":                            {standingWith(), routeState{}, "True", "Ready", false},
		"something is wrong in it":               {standingWith(absent, written), routeState{}, "False", "Error", true},
		"a Service is missing that may come":     {standingWith(absent), routeState{}, "False", "Error", false},
		"another one has its host, and may go":   {standingWith(taken), routeState{}, "False", "Error", false},
		"its HTTPRoute does not work":            {standingWith(), routeState{problem: "HTTPRouteErrors: none"}, "False", "Error", false},
		"its HTTPRoute waits":                    {standingWith(), routeState{pending: "soon"}, "Unknown", "Progressing", false},
		"there is no gateway yet":                {standing{}, routeState{}, "Unknown", "Progressing", false},
		"gateways cannot fetch the keys of it":   {standing{gateways: 1, problems: apirule.Problems{absent}}, routeState{}, "False", "Warning", false},
		"gateways find something wrong in it":    {standing{gateways: 1, problems: apirule.Problems{written}}, routeState{}, "False", "Warning", true},
		"a gateway has not loaded it yet":        {standing{gateways: 1, behind: []string{"10.0.0.1"}}, routeState{}, "Unknown", "Progressing", false},
		"it is wrong, and gateways find more so": {standing{gateways: 1, exposure: apirule.Exposure{Problems: apirule.Problems{written}}, problems: apirule.Problems{absent}}, routeState{}, "False", "Error", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := statusFor(&tc.standing, tc.route)
			summary := summaryOf(said, 3)
			require.Equal(t, metav1.Condition{
				Type: "Ready", Status: tc.wantStatus, Reason: tc.wantReason, Message: said.description, ObservedGeneration: 3,
			}, summary.Ready)
			require.Equal(t, tc.stalled, summary.Stalled != nil)
		})
	}
}
