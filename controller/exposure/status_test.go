package exposure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/exposure"
)

func TestTheStateSaysWhatIsMostPressing(t *testing.T) {
	t.Parallel()
	written := apirule.Problem{Attribute: ".spec.rules", Message: "wrong"}
	keys := apirule.Problem{Attribute: ".spec.rules[0].jwt", Message: "no keys"}
	served := func(change ...func(*standing)) standing {
		s := standing{gateways: 2}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	wrong := func(s *standing) { s.exposure = exposure.Exposure{Problems: apirule.Problems{written}} }
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
			statusUpdate{state: v2.StateError, description: "Validation errors: Attribute '.spec.rules': wrong"},
		},
		"something is wrong in it and gateways see more": {
			served(wrong, unsure),
			routeState{},
			statusUpdate{state: v2.StateError, description: "Validation errors: Attribute '.spec.rules': wrong\nAttribute '.spec.rules[0].jwt': no keys"},
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
	setStatus(&status, ready, first)
	require.Equal(t, v2.APIRuleStatus{State: v2.StateReady, Description: "Reconciled successfully", LastProcessedTime: new(metav1.NewTime(first))}, status)
	before := *status.DeepCopy()
	setStatus(&status, ready, later)
	require.Equal(t, before, status)
	setStatus(&status, statusUpdate{state: v2.StateError, description: "wrong"}, later)
	require.Equal(t, v2.APIRuleStatus{State: v2.StateError, Description: "wrong", LastProcessedTime: new(metav1.NewTime(later))}, status)
}
