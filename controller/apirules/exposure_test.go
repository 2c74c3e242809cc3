package apirules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
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

	// A status that is right is not written again.
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

func TestAServiceThatComesLaterMakesAnAPIRuleReady(t *testing.T) {
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

func TestAHostThatIsFreedGoesToTheNext(t *testing.T) {
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

func TestWhatOnlyGatewaysSeeIsAWarning(t *testing.T) {
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
	f.edit(rule, func(r *v2.APIRule) { r.Spec.Timeout = new(v2.Timeout(7)) }) // gateways are asked at once
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

func TestAStatusThatAnotherWroteIsPutRight(t *testing.T) {
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

// Kyma's API Gateway serves them then.
func TestAPIRulesAreLeftAloneWhereTheyAreNotServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gateway("10.0.0.1")
	require.NoError(t, Setup(nil, nil, Options{}), "nothing is asked of the manager")
}
