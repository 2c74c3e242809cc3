package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

const replicaSetYAML = `apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: pricing-NUMBER
  labels: {serverless.kyma-project.io/function-name: pricing, serverless.kyma-project.io/resource: deployment}
  annotations: {deployment.kubernetes.io/revision: "NUMBER"}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}, annotations: {rouse.run/version: VERSION}}
    spec: {containers: [{name: function, image: x}]}
`

func (c *testCluster) revision(t *testing.T, number, version string) {
	t.Helper()
	c.apply(t, strings.NewReplacer("NUMBER", number, "VERSION", version).Replace(replicaSetYAML))
}

const eventYAML = `apiVersion: v1
kind: Event
metadata: {name: pricing.1}
involvedObject: {kind: Function, name: pricing, namespace: NAMESPACE}
type: Warning
reason: HandlerFailed
message: "the new version does not start: Cannot find module 'lodash'"
count: 3
lastTimestamp: "2026-01-01T00:00:00Z"
`

// serves writes the status of the Function, which serves a version of its spec.
func (c *testCluster) serves(t *testing.T, version string) {
	t.Helper()
	fn := c.get(t, pricingYAML, "pricing")
	status := statusOf(fn,
		map[string]any{"type": "ConfigurationReady", "status": "True", "reason": "FunctionSpecValidated", "message": "the spec is valid"},
		map[string]any{"type": "Running", "status": "True", "reason": "DeploymentReady", "message": "it runs"})
	status["version"] = version
	require.NoError(t, c.setStatus(t.Context(), fn, status))
}

func TestDescribeShowsAFunctionOfAClusterOnOnePage(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, pricingYAML)
	c.apply(t, c.subscriptionYAML())
	c.revision(t, "1", "aaaaaaaaaa")
	c.revision(t, "2", "bbbbbbbbbb")
	c.apply(t, strings.ReplaceAll(eventYAML, "NAMESPACE", c.namespace))
	c.serves(t, "bbbbbbbbbb")

	got := c.run(t, "describe", "function", "pricing")
	require.Equal(t, 0, got.code, got.err)
	for _, want := range []string{
		`(?m)^function +` + c.namespace + `/pricing$`, `(?m)^state +asleep$`,
		`(?m)^Conditions\nCONDITION +STATUS +SINCE +REASON +MESSAGE\nConfigurationReady +True +\d+d +FunctionSpecValidated +the spec is valid\n`,
		`(?m)^Versions\nVERSION +SINCE +PODS\nbbbbbbbbbb +\d+s +0 +runs\naaaaaaaaaa +\d+s +0\n`,
		`(?m)^Events\n.*\n\d+d +3 +Warning +HandlerFailed +the new version does not start: Cannot find module 'lodash'\n`,
		`(?m)^` + c.namespace + ` +orders +preparing +shop +order.received`,
	} {
		require.Regexp(t, want, got.out)
	}

	got = c.run(t, "describe", "fn/pricing", "-o", "json")
	require.Equal(t, 0, got.code, got.err)
	var page struct {
		Name, Version, Phase string
		Versions, Events     []map[string]any
		Subscriptions        []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &page))
	require.Equal(t, "pricing bbbbbbbbbb asleep", page.Name+" "+page.Version+" "+page.Phase)
	require.Len(t, page.Versions, 2)
	require.Len(t, page.Events, 1)
	require.Len(t, page.Subscriptions, 1)
}

func TestDescribeNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	require.Equal(t, exit.NotFound, exit.Code(c.run(t, "describe", "function", "nope").code))
	for _, args := range [][]string{{"describe"}, {"describe", "function"}, {"describe", "pod", "x"}, {"describe", "function/"}, {"describe", "function", "a", "b"}} {
		got := c.run(t, args...)
		require.Equal(t, exit.Usage, exit.Code(got.code), args)
		require.Contains(t, got.err, "name one object, as function NAME", args)
	}
}

func TestDescribeAndGetAskLocalModeToo(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(http.ResponseWriter, *http.Request) {})
	page := w.run(t, "describe", "function", "pricing")
	require.Equal(t, 0, page.code, page.err)
	require.Equal(t, w.run(t, "functions", "pricing").out, page.out, "local mode has no more")
	require.Equal(t, w.run(t, "functions").out, w.run(t, "get", "functions").out)
	require.Equal(t, w.run(t, "subscriptions").out, w.run(t, "get", "subs").out)
	require.Equal(t, exit.Usage, exit.Code(run(t, "", "get", "pods").code))
}

func TestKubectlsPluginAsksTheClusterOfTheCurrentContext(t *testing.T) {
	c := newTestCluster(t)
	t.Setenv("KUBECONFIG", c.kubeconfig)
	c.apply(t, pricingYAML)
	plugin := func(args ...string) ran {
		var out, errs strings.Builder
		code := Plugin(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, ProgressAfter: unhurried})
		return ran{code, out.String(), errs.String()}
	}
	got := plugin("get", "functions", "-o", "name")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, c.namespace+"/pricing\n", got.out)
	require.Equal(t, exit.Unreachable, exit.Code(plugin("functions", "--dir", t.TempDir()).code), "a folder is one of local mode")
	require.Equal(t, exit.Unreachable, exit.Code(plugin("functions", "--context", "limited").code))
	help := plugin("deploy", "--help")
	require.Contains(t, help.out, "kubectl rouse deploy [DIR]")
	require.NotContains(t, help.out, currentContext)
}
