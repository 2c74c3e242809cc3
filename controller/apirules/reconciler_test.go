package apirules

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestAnAPIRuleIsReadyWhenEveryGatewayHasLoadedIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.gateway("10.0.0.1", "10.0.0.2")
	f.set("10.0.0.2", func(g *gateway) { g.behind = true })
	f.start()
	rule := f.rule("price")
	f.await(rule, v2.StateWarning, "1 of 2 gateways have not loaded it yet: 10.0.0.2")

	f.set("10.0.0.2", func(g *gateway) { g.behind = false })
	ready := f.await(rule, v2.StateReady, "Reconciled successfully")
	require.Nil(t, f.httpRoute("price"), "the gateway is Rouse's own")

	// A status that is up to date is not written again.
	f.edit(rule, func(r *v2.APIRule) { r.Labels = map[string]string{"a": "b"} })
	other := f.rule("other")
	f.await(other, v2.StateReady, "")
	again := f.await(rule, v2.StateReady, "")
	require.Equal(t, ready.Status, again.Status)

	events := &eventsv1.EventList{}
	require.Eventually(t, func() bool {
		require.NoError(t, f.List(t.Context(), events, client.InNamespace(f.tenant)))
		for i := range events.Items {
			if events.Items[i].Regarding.Name == "price" && events.Items[i].Reason == "Ready" {
				return true
			}
		}
		return false
	}, timeout, soon)
	for i := range events.Items {
		require.NotEqual(t, "Warning", events.Items[i].Type, "what passes is no event")
	}
}

func TestEveryAttributeThatIsWrongIsInTheStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.service(f.release, "hidden")
	f.gateway("10.0.0.1")
	f.start()
	f.await(f.rule("earlier"), v2.StateReady, "")
	jwt := func(change func(*v2.JWT)) func(*v2.APIRule) {
		return func(r *v2.APIRule) {
			token := &v2.JWT{Authentications: []*v2.JWTAuthentication{{Issuer: "https://id.example.com", JWKSURI: "https://id.example.com/keys"}}}
			change(token)
			r.Spec.Rules[0].NoAuth, r.Spec.Rules[0].JWT = nil, token
		}
	}
	for name, tc := range map[string]struct {
		change      func(*v2.APIRule)
		description string
	}{
		"gateway": {
			func(r *v2.APIRule) { r.Spec.Gateway = new("kyma-system/none") },
			"Validation errors: Attribute 'spec.gateway': Could not get specified Gateway",
		},
		"no-gateway": {
			func(r *v2.APIRule) { r.Spec.Gateway = nil },
			"Validation errors: Attribute '.spec': Either gateway or externalGateway must be specified",
		},
		"external-gateway": {
			func(r *v2.APIRule) { r.Spec.Gateway, r.Spec.ExternalGateway = nil, new("a/b") },
			"Validation errors: Attribute 'spec.externalGateway': Could not get specified ExternalGateway",
		},
		"host": {
			func(r *v2.APIRule) { r.Spec.Hosts[0] = v2.Host("earlier." + f.domain) },
			"Validation errors: Attribute '.spec.hosts[0]': Host is occupied by another APIRule " + f.tenant + "/earlier",
		},
		"rules": {
			func(r *v2.APIRule) { r.Spec.Rules = append(r.Spec.Rules, r.Spec.Rules[0]) },
			"Validation errors: Attribute '.spec.rules': Path /* with method GET conflicts with at least one of the previous rule paths",
		},
		"path": {
			func(r *v2.APIRule) { r.Spec.Rules[0].Path = "/{**}/{**}" },
			"Validation errors: Attribute '.spec.rules[0].path': Only one {**} operator is allowed in the path.",
		},
		"no-service": {
			func(r *v2.APIRule) { r.Spec.Service = nil },
			"Validation errors: Attribute '.spec.rules[0].service': The rule must define a service",
		},
		"missing-service": {
			func(r *v2.APIRule) { r.Spec.Service.Name = "none" },
			"Validation errors: Attribute '.spec.rules[0]': Target service " + f.tenant + "/none not found",
		},
		"foreign-service": {
			func(r *v2.APIRule) { r.Spec.Service = &v2.Service{Name: "hidden", Namespace: f.release, Port: 80} },
			"Validation errors: Attribute '.spec.rules[0].service': Service " + f.release + "/hidden is not there, or does not allow it",
		},
		"service-port": {
			func(r *v2.APIRule) { r.Spec.Service.Port = 81 },
			"Validation errors: Attribute '.spec.rules[0].service': Service " + f.tenant + "/price has no TCP port 81",
		},
		"issuer": {
			jwt(func(j *v2.JWT) { j.Authentications[0].Issuer = "" }), "Attribute '.spec.rules[0].jwt.authentications[0].issuer'",
		},
		"jwks-uri": {
			jwt(func(j *v2.JWT) { j.Authentications[0].JWKSURI = "keys" }), "Attribute '.spec.rules[0].jwt.authentications[0].jwksUri'",
		},
		"authorizations": {
			jwt(func(j *v2.JWT) { j.Authorizations = []*v2.JWTAuthorization{{RequiredScopes: []string{""}}} }),
			"Attribute '.spec.rules[0].jwt.authorizations[0].requiredScopes",
		},
		"authorizer": {
			func(r *v2.APIRule) {
				r.Spec.Rules[0].NoAuth, r.Spec.Rules[0].ExtAuth = nil, &v2.ExtAuth{Authorizers: []string{"sessions", "nobody"}}
			},
			"Validation errors: Attribute '.spec.rules[0].extAuth.externalAuthorizers.nobody': Authorizer not found",
		},
	} {
		rule := f.rule(name, tc.change)
		f.await(rule, v2.StateError, tc.description)
	}
}

func TestCreatingItsServiceMakesAnAPIRuleReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gateway("10.0.0.1")
	f.start()
	rule := f.rule("price")
	f.await(rule, v2.StateError, "not found")
	service := f.service(f.tenant, "price")
	f.await(rule, v2.StateReady, "")
	require.NoError(t, f.Delete(t.Context(), service))
	f.await(rule, v2.StateError, "not found")
}

func TestAFreedHostGoesToTheNextAPIRule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.gateway("10.0.0.1")
	f.start()
	first := f.rule("price")
	f.await(first, v2.StateReady, "")
	second := f.rule("second", func(r *v2.APIRule) { r.Spec.Hosts[0] = "price" })
	f.await(second, v2.StateError, "Host is occupied by another APIRule "+f.tenant+"/price")

	f.edit(first, func(r *v2.APIRule) { r.Spec.Rules[0].Path = "/{**}/{**}" })
	f.await(first, v2.StateError, "Only one {**}")
	f.await(second, v2.StateError, "Host is occupied")

	require.NoError(t, f.Delete(t.Context(), first))
	f.await(second, v2.StateReady, "")
}

func TestProblemsFromGatewaysAreAWarning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.gateway("10.0.0.1", "10.0.0.2")
	f.start()
	rule := f.rule("price")
	f.await(rule, v2.StateReady, "")
	unreachable := apirule.LoadedProblem{Attribute: ".spec.rules[0].jwt.authentications[0].jwksUri", Message: "The keys cannot be fetched"}
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		f.set(address, func(g *gateway) { g.found = []apirule.LoadedProblem{unreachable} })
	}
	f.edit(rule, func(r *v2.APIRule) { r.Spec.Timeout = new(v2.Timeout(7)) }) // gateways are queried at once
	found := f.await(rule, v2.StateWarning, "Attribute")
	require.Equal(t, "Validation errors: Attribute '.spec.rules[0].jwt.authentications[0].jwksUri': The keys cannot be fetched", found.Status.Description)
}

func TestWithoutAGatewayNothingIsReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.start()
	rule := f.rule("price")
	f.await(rule, v2.StateWarning, "No gateway is ready")
	f.gateway("10.0.0.1")
	f.await(rule, v2.StateReady, "")
}

func TestAForeignStatusIsCorrected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.gateway("10.0.0.1")
	f.start()
	rule := f.await(f.rule("price"), v2.StateReady, "")
	rule.Status = v2.APIRuleStatus{State: v2.StateError, Description: "by hand", LastProcessedTime: new(metav1.NewTime(time.Unix(0, 0)))}
	require.NoError(t, f.Status().Update(t.Context(), rule))
	f.await(rule, v2.StateReady, "Reconciled successfully")
}

// Kyma's API Gateway serves them in that case.
func TestAPIRulesAreLeftAloneWhereTheyAreNotServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gateway("10.0.0.1")
	require.NoError(t, Setup(nil, nil, Options{}), "the manager is not used")
}

func TestTheStateReportsTheMostSevereProblem(t *testing.T) {
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
		"it is served": {served(), routeState{}, statusUpdate{state: v2.StateReady, description: "Reconciled successfully"}},
		"it is invalid": {
			served(wrong, late, nobody),
			routeState{problem: "HTTPRouteErrors: none"},
			statusUpdate{state: v2.StateError, description: "Validation errors: Attribute '.spec.rules': wrong", stalled: true},
		},
		"it is invalid and gateways detect more problems": {
			served(wrong, unsure),
			routeState{},
			statusUpdate{state: v2.StateError, description: "Validation errors: Attribute '.spec.rules': wrong\nAttribute '.spec.rules[0].jwt': no keys", stalled: true},
		},
		"its HTTPRoute does not work": {
			served(late, unsure), routeState{problem: "HTTPRouteErrors: none"}, statusUpdate{state: v2.StateError, description: "HTTPRouteErrors: none"},
		},
		"gateways detect a problem": {
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
		"many gateways are behind": {
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

func TestLastProcessedTimeIsTheLastStatusChange(t *testing.T) {
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
		"it is served":                       {standingWith(), routeState{}, "True", "Ready", false},
		"it is invalid":                      {standingWith(absent, written), routeState{}, "False", "Error", true},
		"a Service is missing that may come": {standingWith(absent), routeState{}, "False", "Error", false},
		"another APIRule has its host, and may be deleted": {standingWith(taken), routeState{}, "False", "Error", false},
		"its HTTPRoute does not work":                      {standingWith(), routeState{problem: "HTTPRouteErrors: none"}, "False", "Error", false},
		"its HTTPRoute waits":                              {standingWith(), routeState{pending: "soon"}, "Unknown", "Progressing", false},
		"there is no gateway yet":                          {standing{}, routeState{}, "Unknown", "Progressing", false},
		"gateways cannot fetch the keys of it":             {standing{gateways: 1, problems: apirule.Problems{absent}}, routeState{}, "False", "Warning", false},
		"gateways detect an error in it":                   {standing{gateways: 1, problems: apirule.Problems{written}}, routeState{}, "False", "Warning", true},
		"a gateway has not loaded it yet":                  {standing{gateways: 1, behind: []string{"10.0.0.1"}}, routeState{}, "Unknown", "Progressing", false},
		"it is invalid, and gateways detect more errors":   {standing{gateways: 1, exposure: apirule.Exposure{Problems: apirule.Problems{written}}, problems: apirule.Problems{absent}}, routeState{}, "False", "Error", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			update := statusFor(&tc.standing, tc.route)
			summary := summaryOf(update, 3)
			require.Equal(t, metav1.Condition{
				Type: "Ready", Status: tc.wantStatus, Reason: tc.wantReason, Message: update.description, ObservedGeneration: 3,
			}, summary.Ready)
			require.Equal(t, tc.stalled, summary.Stalled != nil)
		})
	}
}

const committed = `
apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata:
  name: price
spec:
  hosts: [price]
  gateway: kyma-system/kyma-gateway
  service: {name: price, port: 80}
  rules:
  - {path: /*, methods: [GET], noAuth: true}
`

func TestCommittedAPIRuleBecomesCurrentWithoutDrift(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gateway("10.0.0.1")
	commit := gitops.NewCommit(t, f.tenant, committed)
	require.NoError(t, commit.Apply(t.Context(), f))
	rule := &v2.APIRule{}
	rule.Namespace, rule.Name = f.tenant, "price"
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(rule), rule))
	gitops.RequireInProgress(t, rule) // no controller runs

	f.start()
	gitops.RequireInProgress(t, f.await(rule, v2.StateError, "not found"))
	f.service(f.tenant, "price")
	gitops.RequireCurrent(t, f.await(rule, v2.StateReady, ""))

	// Meanwhile a gateway starts and loads the APIRule.
	commit.RequireNoDrift(t, f, 3, time.Second, func(round int) {
		if round == 1 {
			f.gateway("10.0.0.2")
		}
	})
	f.await(rule, v2.StateReady, "")
	commit.RequireQuiet(t, f, 3, time.Second)

	broken := gitops.NewCommit(t, f.tenant, committed+"  - {path: /a, methods: [GET], noAuth: true}\n")
	require.NoError(t, broken.Apply(t.Context(), f))
	require.Contains(t, gitops.RequireFailed(t, f.await(rule, v2.StateError, "conflicts")), "Path /a with method GET conflicts")

	require.NoError(t, commit.Apply(t.Context(), f))
	gitops.RequireCurrent(t, f.await(rule, v2.StateReady, ""))
}

func parse(args ...string) (Options, error) {
	o := Options{}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Bind(fs, &o)
	return o, fs.Parse(args)
}

func TestOptionsOfAPIRulesComeFromFlags(t *testing.T) {
	t.Parallel()
	o, err := parse("--apirules", "--gateway-api", "--authorizers=sessions,keys", "--apirules-service=rouse-system/rouse-gateway-http")
	require.NoError(t, err)
	require.Equal(t, []string{"sessions", "keys"}, o.Authorizers)
	require.Equal(t, types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway-http"}, o.Entrance)
	require.ErrorContains(t, flags.Validate(&o), "--apirules: --gateway-service must say where the gateways are")
	o.Gateways = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}
	require.NoError(t, flags.Validate(&o))
	o.Entrance = types.NamespacedName{}
	require.ErrorContains(t, flags.Validate(&o), "--gateway-api: --apirules-service must say where HTTPRoutes lead")

	o, err = parse()
	require.NoError(t, err)
	require.NoError(t, flags.Validate(&o), "without APIRules no option is required")
}
