//go:build e2e

package lifecycle

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/framework/sources"
)

const olderFunction = `apiVersion: serverless.kyma-project.io/v1alpha1
kind: Function
metadata: {name: older, labels: {team: shop}}
spec: {runtime: nodejs22, source: "module.exports.main = () => 'from v1alpha1'", minReplicas: 1, maxReplicas: 2}
`

const olderFromGit = `apiVersion: serverless.kyma-project.io/v1alpha1
kind: Function
metadata: {name: older-git}
spec: {runtime: nodejs22, type: git, source: code, baseDir: /, reference: main}
`

func TestFunctionsOfV1alpha1AreServedWhileTheOptionIsOn(t *testing.T) {
	cluster, namespace := start(t)
	out, err := kubectl(t, olderFunction, "apply", "--namespace", namespace, "-f", "-")
	require.Error(t, err)
	require.Contains(t, out, `no matches for kind "Function" in version "serverless.kyma-project.io/v1alpha1"`)

	const option = "functions.v1alpha1.enabled="
	helm(t, "upgrade", release, chart, "--reuse-values", "--set", option+"true", "--wait", "--timeout", "3m")
	t.Cleanup(func() {
		require.NoError(t, cluster.DeleteDefinition(context.WithoutCancel(t.Context()), "gitrepositories.serverless.kyma-project.io"))
	})
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	repository, err := server.Repository(t.Context(), "code", false)
	require.NoError(t, err)
	_, err = repository.Commit(t.Context(), "main", map[string]string{"handler.js": "module.exports.main = () => 'from a GitRepository'"})
	require.NoError(t, err)

	require.NoError(t, framework.Await(t.Context(), time.Minute, "v1alpha1 to be served", func(context.Context) (bool, error) {
		_, err := kubectl(t, olderFunction+"---\n"+olderFromGit, "apply", "--namespace", namespace, "-f", "-")
		return err == nil, err
	}))
	missing, err := cluster.AwaitMessage(t.Context(), namespace, "older-git", "ConfigurationReady", "False", time.Minute,
		"GitRepository "+namespace+"/code is missing", "create it with spec.url")
	require.NoError(t, err)
	t.Log(missing)
	gitRepository := "apiVersion: serverless.kyma-project.io/v1alpha1\nkind: GitRepository\nmetadata: {name: code}\nspec: {url: '" + repository.HTTP() + "'}\n"
	out, err = kubectl(t, gitRepository, "apply", "--namespace", namespace, "-f", "-")
	require.NoError(t, err, out)
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "older", "from v1alpha1", 2*time.Minute))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "older-git", "from a GitRepository", 3*time.Minute))

	read := func(version, path string) string {
		out, err := kubectl(t, "", "get", "--namespace", namespace, "functions."+version+".serverless.kyma-project.io", "-o", "jsonpath={.items[*]"+path+"}")
		require.NoError(t, err, out)
		t.Logf("%s: %s", version, out)
		return out
	}
	require.Contains(t, read("v1alpha1", ".spec.source"), "from v1alpha1")
	require.Contains(t, read("v1alpha1", ".spec.source"), " code")
	require.Contains(t, read("v1alpha2", ".spec.source.inline.source"), "from v1alpha1")
	require.Contains(t, read("v1alpha2", ".spec.source.gitRepository.url"), repository.HTTP())
	out, err = kubectl(t, olderFunction, "diff", "--namespace", namespace, "-f", "-")
	require.NoError(t, err, "no drift: %s", out)

	off := []string{"upgrade", release, chart, "--namespace", framework.System, "--reuse-values", "--set", option + "false", "--wait", "--timeout", "3m"}
	answer, err := exec.CommandContext(t.Context(), "helm", off...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(answer), `2 Functions have managed fields of v1alpha1`)
	t.Logf("%s", answer)
	answer, err = exec.CommandContext(t.Context(), "bash", "-ec", stepOf(t)).CombinedOutput()
	require.NoError(t, err, "%s", answer)
	t.Logf("%s", answer)
	helm(t, off...)
	refused := ""
	require.NoError(t, framework.Await(t.Context(), time.Minute, "v1alpha1 not to be served", func(context.Context) (bool, error) {
		out, err := kubectl(t, olderFunction, "apply", "--namespace", namespace, "-f", "-")
		refused = out
		return err != nil, nil
	}))
	t.Log(refused)
	// kubectl keeps for a while what it knows of the API server.
	require.Regexp(t, "no matches for kind|could not find the requested resource", refused)
	require.Contains(t, read("v1alpha2", ".spec.source.inline.source"), "from v1alpha1")
	newer := framework.Function{Name: "older", Runtime: "nodejs22", Source: "module.exports.main = () => 'from v1alpha2'"}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, newer.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "older", "from v1alpha2", 2*time.Minute))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "older-git", "from a GitRepository", time.Minute))
}

// stepOf is what the page says to do before the end.
func stepOf(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/convert.md")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(page), "```sh\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	return code
}

func kubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "kubectl", args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}
