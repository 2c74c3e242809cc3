package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dashboard"
)

// pendingPod is a pod of the Function pricing that no node takes.
const pendingPod = `
apiVersion: v1
kind: Pod
metadata:
  name: pricing-0
  labels: {serverless.kyma-project.io/function-name: pricing, serverless.kyma-project.io/resource: deployment}
spec: {containers: [{name: function, image: none}]}
`

// startChanges runs a dashboard with the right to change, before a bridge without work.
func startChanges(t *testing.T, c *testCluster, args ...string) served {
	t.Helper()
	w := newFixture(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return startDashboard(t, append([]string{"--kubeconfig", c.kubeconfig, "--admin-url", w.instance.Admin, "--allow-changes"}, args...)...)
}

func TestTheDashboardShowsConditionsPodsVersionsAndEventsOfAFunction(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, pricingYAML)
	c.revision(t, "1", "aaaaaaaaaa")
	c.revision(t, "2", "bbbbbbbbbb")
	c.apply(t, strings.ReplaceAll(eventYAML, "NAMESPACE", c.namespace))
	c.serves(t, "bbbbbbbbbb")
	pod := c.apply(t, pendingPod)
	require.NoError(t, c.setStatus(t.Context(), pod, map[string]any{"phase": "Pending", "conditions": []any{
		map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu"},
	}}))
	at := startChanges(t, c)
	var detail dashboard.FunctionDetail
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodGet, "/api/v1/functions/"+c.namespace+"/pricing", "", &detail))
	require.Empty(t, detail.Unknown)
	require.Equal(t, "ConfigurationReady", detail.Conditions[0].Type)
	require.Equal(t, dashboard.LevelGood, detail.Conditions[0].Level)
	require.Equal(t, "the spec is valid", detail.Conditions[0].Message)
	require.Equal(t, "bbbbbbbbbb", detail.Versions[0].Name)
	require.True(t, detail.Versions[0].Runs)
	require.False(t, detail.Versions[1].Runs)
	require.Len(t, detail.Happenings, 1)
	require.True(t, detail.Happenings[0].Warning)
	require.Equal(t, "pricing-0", detail.Pods[0].Name)
	require.Equal(t, "Pending", detail.Pods[0].State)
	require.Contains(t, detail.Pods[0].Problem, "Insufficient cpu")
}

func TestTheDashboardRollsBackAndPausesAsTheUserMay(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, pricingYAML)
	c.apply(t, `
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: pricing}
spec: {sink: "http://pricing.`+c.namespace+`.svc.cluster.local", source: shop, types: [order.received]}
`)
	c.revision(t, "1", "aaaaaaaaaa")
	c.revision(t, "2", "bbbbbbbbbb")
	c.serves(t, "bbbbbbbbbb")
	c.serveRollbacks(t)
	at := startChanges(t, c)
	path := "/api/v1/functions/" + c.namespace + "/pricing/"
	var answer struct {
		Version, Error string
		Changed        []string
	}
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodPost, path+"rollback", `{"version":"aaaaaaaaaa"}`, &answer), answer)
	require.Equal(t, "aaaaaaaaaa", answer.Version)
	require.Equal(t, "aaaaaaaaaa", c.get(t, pricingYAML, "pricing").GetAnnotations()[rollbackTo])
	require.Equal(t, http.StatusUnprocessableEntity, at.ask(t, http.MethodPost, path+"rollback", `{"version":"cccccccccc"}`, &answer))
	require.Contains(t, answer.Error, "there is no version cccccccccc; there are bbbbbbbbbb, aaaaaaaaaa")
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodPost, path+"rollback", `{"version":""}`, nil))
	require.Empty(t, c.get(t, pricingYAML, "pricing").GetAnnotations()[rollbackTo])

	require.Equal(t, http.StatusOK, at.ask(t, http.MethodPost, path+"pause", `{"paused":true}`, &answer))
	require.Equal(t, []string{c.namespace + "/pricing"}, answer.Changed)
	require.Equal(t, true, c.peek(subscriptionKind, "pricing").Object["spec"].(map[string]any)["paused"])
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodPost, "/api/v1/subscriptions/"+c.namespace+"/pricing/pause", `{"paused":false}`, &answer))
	require.NotContains(t, c.peek(subscriptionKind, "pricing").Object["spec"], "paused")
}

// drafted is the answer to a draft.
type drafted struct {
	Objects []struct {
		Kind, YAML string
		New        bool
		Diff       []struct{ Op, Text string }
	}
	Problems []struct {
		Field, Message, Remedy string
		Conflict               bool
	}
	Digest, Error string
	Applied       bool
}

// draft is the body of a draft of a Function and its Subscription.
func draft(t *testing.T, change func(function, subscription, whole map[string]any)) string {
	t.Helper()
	function := map[string]any{"name": "greeter", "runtime": "nodejs22", "source": "module.exports = { main: () => 1 }\n", "dependencies": "", "min": 0, "max": 2}
	subscription := map[string]any{"name": "greeter", "source": "shop", "types": []string{"order.received"}, "function": "greeter"}
	whole := map[string]any{"function": function, "subscription": subscription}
	change(function, subscription, whole)
	text, err := json.Marshal(whole)
	require.NoError(t, err)
	return string(text)
}

func TestTheDashboardCreatesAndEditsAFunctionAsTheAPIServerAccepts(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	at := startChanges(t, c)
	send := func(change func(function, subscription, whole map[string]any)) (found drafted, status int) {
		status = at.ask(t, http.MethodPost, "/api/v1/drafts", draft(t, func(function, subscription, whole map[string]any) {
			function["namespace"], subscription["namespace"] = c.namespace, c.namespace
			change(function, subscription, whole)
		}), &found)
		return found, status
	}
	shown, status := send(func(f, _, whole map[string]any) { f["runtime"], whole["create"] = "cobol", true })
	require.Equal(t, http.StatusOK, status, shown.Error)
	require.NotEmpty(t, shown.Problems)
	require.Equal(t, "function.runtime", shown.Problems[0].Field)

	creating := func(_, _, whole map[string]any) { whole["create"], whole["seen"] = true, shown.Digest }
	shown.Digest = ""
	shown, _ = send(creating)
	require.Empty(t, shown.Problems)
	require.Len(t, shown.Objects, 2)
	require.True(t, shown.Objects[0].New)
	require.Nil(t, c.peek(functionKind, "greeter"), "it was shown, and nothing more")
	shown, _ = send(creating)
	require.True(t, shown.Applied, shown)
	require.NotNil(t, c.peek(functionKind, "greeter"))
	require.NotNil(t, c.peek(subscriptionKind, "greeter"))
	shown.Digest = ""
	shown, _ = send(creating)
	require.Equal(t, "function.name", shown.Problems[0].Field, "it is there now")

	editing := func(f, _, whole map[string]any) {
		f["source"], whole["seen"] = "module.exports = { main: () => 2 }\n", shown.Digest
	}
	shown, _ = send(editing)
	require.Empty(t, shown.Problems)
	require.Contains(t, shown.Objects[0].Diff, struct{ Op, Text string }{"+", "        module.exports = { main: () => 2 }"})
	require.Empty(t, shown.Objects[1].Diff, "the Subscription stays")
	shown, _ = send(editing)
	require.True(t, shown.Applied)
	require.Contains(t, at.source(t, c), "() => 2")
}

// source returns the code of the Function greeter.
func (served) source(t *testing.T, c *testCluster) string {
	t.Helper()
	spec := c.peek(functionKind, "greeter").Object["spec"].(map[string]any)
	return spec["source"].(map[string]any)["inline"].(map[string]any)["source"].(string)
}

func TestAFieldThatAnotherProgramHasWrittenIsTakenOverOnlyWhenItIsAsked(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, strings.ReplaceAll(shownFunctionManifest, "pricing", "greeter"))
	at := startChanges(t, c)
	var shown drafted
	send := func(force bool) {
		seen := shown.Digest
		shown = drafted{}
		at.ask(t, http.MethodPost, "/api/v1/drafts", draft(t, func(function, _, whole map[string]any) {
			function["namespace"], whole["force"], whole["seen"] = c.namespace, force, seen
			delete(whole, "subscription")
		}), &shown)
	}
	send(false)
	require.Empty(t, shown.Digest)
	fields := map[string]bool{}
	for _, each := range shown.Problems {
		fields[each.Field] = each.Conflict && each.Remedy != ""
	}
	require.Equal(t, map[string]bool{"function.source": true, "function.max": true}, fields)
	send(true)
	require.NotContains(t, shown.Objects[0].YAML, "a-secret-value")
	require.Contains(t, shown.Objects[0].YAML, "API_KEY")
	send(true)
	require.True(t, shown.Applied, shown)
	require.Contains(t, at.source(t, c), "() => 1")
	env := c.peek(functionKind, "greeter").Object["spec"].(map[string]any)["env"].([]any)
	require.Equal(t, "a-secret-value", env[0].(map[string]any)["value"], "what the form does not have stays")
}

func TestTheDashboardOfANamespaceChangesNoOther(t *testing.T) {
	t.Parallel()
	c, other := newTestCluster(t), newTestCluster(t)
	at := startChanges(t, c)
	var answer drafted
	status := at.ask(t, http.MethodPost, "/api/v1/drafts", draft(t, func(function, subscription, whole map[string]any) {
		function["namespace"], subscription["namespace"], whole["create"] = other.namespace, other.namespace, true
	}), &answer)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, answer.Error, "these pages show and change namespace "+c.namespace)
	require.Equal(t, http.StatusForbidden, at.ask(t, http.MethodPost, "/api/v1/functions/"+other.namespace+"/pricing/rollback", `{"version":""}`, nil))
}

func TestTheDashboardSaysWhatDoctorFinds(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	at := startChanges(t, c)
	var found struct{ Findings []dashboard.Finding }
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodGet, "/api/v1/health", "", &found))
	levels := map[string]string{}
	for _, each := range found.Findings {
		levels[each.Level] = each.Check
	}
	require.Contains(t, levels, dashboard.LevelGood)
	require.Contains(t, levels, dashboard.LevelBad, "KEDA is not there")
}
