//go:build e2e

package features

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

// exposed calls a host at the entrance.
func exposed(host, path, token string) framework.Call {
	call := framework.Call{URL: framework.Entrance + path, Headers: map[string]string{"host": host}}
	if token != "" {
		call.Headers["authorization"] = "Bearer " + token
	}
	return call
}

func TestAnAPIRuleLetsTheWorldWakeAFunctionWithAToken(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	issuer, err := cluster.StartIssuer(t.Context(), namespace)
	require.NoError(t, err)
	httpSleepers(t, cluster, namespace, framework.Function{Name: "price", Runtime: "nodejs22", Source: echoes["nodejs22"]})
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, fmt.Sprintf(`apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata: {name: price}
spec:
  hosts: [%s]
  gateway: %s
  service: {name: price, port: 80}
  rules:
    - path: /open
      methods: [GET]
      noAuth: true
    - path: /gone
      methods: [GET]
      noAuth: true
      service: {name: missing, port: 80}
    - path: /{**}
      methods: [GET, POST]
      jwt:
        authentications: [{issuer: %[3]q, jwksUri: %[3]q}]
        authorizations: [{requiredScopes: [read]}]
`, namespace, framework.OwnGateway, issuer.URI)))
	require.NoError(t, cluster.AwaitState(t.Context(), namespace, "price", "Error", "Attribute '.spec.rules[1]': Target service "+namespace+"/missing not found", time.Minute))

	reader, err := issuer.Token("someone", "read")
	require.NoError(t, err)
	writer, err := issuer.Token("someone", "write")
	require.NoError(t, err)
	host := namespace + "." + framework.OwnDomain
	calls := map[string]framework.Call{
		"a token": exposed(host, "/orders/1", reader), "no token": exposed(host, "/orders/1", ""),
		"another scope": exposed(host, "/orders/1", writer), "a bad token": exposed(host, "/orders/1", reader+"x"),
		"an open path": exposed(host, "/open", ""), "a rule without its Service": exposed(host, "/gone", ""),
		"an unknown host": exposed("unknown."+framework.OwnDomain, "/open", ""),
	}
	for name, want := range map[string]int{
		"no token": 403, "another scope": 403, "a bad token": 401, "an unknown host": 404, "a rule without its Service": 503,
	} {
		require.Equal(t, want, answerTo(t, caller, calls[name]).Status, name)
	}
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "price", 0, asleep), "who is refused wakes nobody")

	woken := answerTo(t, caller, calls["a token"])
	require.Equal(t, 200, woken.Status, woken.Text)
	require.Positive(t, woken.Waited, "it slept")
	require.Equal(t, 200, answerTo(t, caller, calls["an open path"]).Status)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "price", 0, asleep), "it sleeps again")
}

func TestASecondAPIRuleForAHostIsRefusedAndNamesTheFirst(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.Function{Name: "price", Source: echoes["nodejs22"], Runtime: "nodejs22"}.YAML()))
	rule := func(name string) string {
		return framework.APIRule{Name: name, Host: namespace, Service: "price", Gateway: framework.OwnGateway}.YAML()
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, rule("first")))
	require.NoError(t, cluster.AwaitState(t.Context(), namespace, "first", "Ready", "Reconciled successfully", time.Minute))
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, rule("second")))
	require.NoError(t, cluster.AwaitState(t.Context(), namespace, "second", "Error", "Host is occupied by another APIRule "+namespace+"/first", time.Minute))
}

func answerTo(t *testing.T, caller *framework.Caller, call framework.Call) framework.Called {
	t.Helper()
	answers, err := caller.Do(t.Context(), call)
	require.NoError(t, err)
	require.Empty(t, answers[0].Error)
	return answers[0]
}
