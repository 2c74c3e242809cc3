//go:build e2e

package features

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/framework/sources"
)

// noticed is how long a moved branch may stay unseen: 30 seconds, their jitter, and what the look itself takes.
const noticed = 40 * time.Second

func nodeHandler(answer string) string {
	return fmt.Sprintf("module.exports.main = () => '%s'\n", answer)
}

func pythonHandler(answer string) string {
	return fmt.Sprintf("def main(event, context):\n    return '%s'\n", answer)
}

func TestFunctionsComeFromGitByHTTPAndSSH(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	repository, err := server.Repository(t.Context(), "shop", true)
	require.NoError(t, err)
	first, err := repository.Commit(t.Context(), "main", map[string]string{"price/handler.py": pythonHandler("tagged"), "README.md": "shop"})
	require.NoError(t, err)
	require.NoError(t, repository.Tag(t.Context(), "v1", first))
	second, err := repository.Commit(t.Context(), "main", map[string]string{"handler.js": nodeHandler("by its commit")})
	require.NoError(t, err)
	_, err = repository.Commit(t.Context(), "main", map[string]string{"handler.js": "this is not JavaScript"})
	require.NoError(t, err)

	manifest := framework.Secret("basic", nil, map[string]string{"username": sources.User, "password": sources.Password}) + "---\n" +
		framework.Secret("key", nil, map[string]string{"key": server.PrivateKey}) + "---\n" +
		framework.Function{Name: "tagged", Runtime: "python312", Git: &framework.Git{
			URL: repository.HTTP(), Reference: "v1", BaseDir: "/price/", AuthType: "basic", Secret: "basic",
		}}.YAML() + "---\n" +
		framework.Function{Name: "pinned", Runtime: "nodejs22", Git: &framework.Git{
			URL: repository.SSH(), Reference: second, BaseDir: "/", AuthType: "key", Secret: "key",
		}}.YAML()
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, manifest))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "tagged", "tagged", built))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "pinned", "by its commit", built))
}

func TestAMovedBranchIsNoticedAndABrokenOneDoesNoHarm(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	repository, err := server.Repository(t.Context(), "moving", false)
	require.NoError(t, err)
	updates, err := cluster.RecordReasons(t.Context(), namespace, "ConfigurationReady", "SourceUpdated")
	require.NoError(t, err)
	commit := func(text string) (hash string) {
		t.Helper()
		hash, err := repository.Commit(t.Context(), "main", map[string]string{"handler.js": text})
		require.NoError(t, err)
		return hash
	}
	lookNow := func(value string) {
		t.Helper()
		require.NoError(t, cluster.Annotate(t.Context(), namespace, "moving", map[string]string{"rouse.run/check-git": value}))
	}
	commit(nodeHandler("one"))
	function := framework.Function{Name: "moving", Runtime: "nodejs22", Git: &framework.Git{URL: repository.HTTP(), Reference: "main", BaseDir: "/"}}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "one", built))

	second := commit(nodeHandler("two"))
	moved := time.Now()
	require.NoError(t, updates.Await(t.Context(), second, noticed))
	t.Logf("a moved branch was noticed after %s", time.Since(moved).Round(time.Second))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "two", built))

	broken := commit("const broken = ;\n")
	moved = time.Now()
	lookNow("1")
	require.NoError(t, updates.Await(t.Context(), broken, 5*time.Second))
	t.Logf("when asked to look, after %s", time.Since(moved).Round(100*time.Millisecond))
	requireFailure(t, cluster, namespace, "moving", "BuildReady", "handler.js", "SyntaxError")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "two", 10*time.Second), "the previous version does not serve")

	commit(nodeHandler("three"))
	lookNow("2")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "three", built))
}

func TestARepositoryThatCannotBeReadSaysWhatToRepair(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	stranger, err := sources.NewKey()
	require.NoError(t, err)
	repository, err := server.Repository(t.Context(), "closed", true)
	require.NoError(t, err)
	_, err = repository.Commit(t.Context(), "main", map[string]string{"handler.js": nodeHandler("never served")})
	require.NoError(t, err)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace,
		framework.Secret("right", nil, map[string]string{"username": sources.User, "password": sources.Password})+"---\n"+
			framework.Secret("wrong", nil, map[string]string{"username": sources.User, "password": "guessed"})+"---\n"+
			framework.Secret("stranger", nil, map[string]string{"key": stranger})))

	cases := map[string]struct {
		git  framework.Git
		says []string
	}{
		"no-password":    {framework.Git{URL: repository.HTTP()}, []string{"spec.source.gitRepository.auth"}},
		"wrong-password": {framework.Git{URL: repository.HTTP(), AuthType: "basic", Secret: "wrong"}, []string{"authentication failed", "Correct the credentials"}},
		"no-secret":      {framework.Git{URL: repository.HTTP(), AuthType: "basic", Secret: "nowhere"}, []string{"nowhere"}},
		"wrong-key":      {framework.Git{URL: repository.SSH(), AuthType: "key", Secret: "stranger"}, []string{"authentication failed", "Correct the credentials"}},
		"no-repository":  {framework.Git{URL: repository.HTTP() + "x", AuthType: "basic", Secret: "right"}, []string{"there is no repository", "closed.gitx"}},
		"no-reference":   {framework.Git{URL: repository.HTTP(), AuthType: "basic", Secret: "right", Reference: "gone"}, []string{`"gone"`, "spec.source.gitRepository.reference"}},
		"unknown-signer": {framework.Git{URL: repository.HTTPS(), AuthType: "basic", Secret: "right"}, []string{"certificate", "CA bundle"}},
	}
	for name, tc := range cases {
		tc.git.Reference, tc.git.BaseDir = cmp.Or(tc.git.Reference, "main"), "/"
		function := framework.Function{Name: name, Runtime: "nodejs22", Git: &tc.git}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for name, tc := range cases {
		requireFailure(t, cluster, namespace, name, "ConfigurationReady", tc.says...)
	}
}

func TestPrivatePackagesNeedThePasswordOfTheirRegistry(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	require.NoError(t, server.PublishNPM(t.Context(), "greeting", map[string]string{"index.js": "module.exports = 'hello from npm'"}))
	require.NoError(t, server.PublishWheel(t.Context(), "shop_greeting", "TEXT = 'hello from a wheel'\n"))
	config := func(npmrc, pipConf string) string {
		return framework.Secret("serverless-package-registry-config", nil, map[string]string{".npmrc": npmrc, "pip.conf": pipConf})
	}
	manifest := config(server.NPMRCWithoutPassword(), "[global]\n") + "---\n" +
		framework.Function{
			Name: "private-npm", Runtime: "nodejs22", Dependencies: `{"dependencies":{"@shop/greeting":"1.0.0"}}`,
			Source: "module.exports.main = () => require('@shop/greeting')",
		}.YAML() + "---\n" +
		framework.Function{
			Name: "private-wheel", Runtime: "python312", Dependencies: "shop-greeting==1.0.0\n",
			Source: "import shop_greeting\ndef main(event, context):\n    return shop_greeting.TEXT\n",
		}.YAML()
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, manifest))
	requireFailure(t, cluster, namespace, "private-npm", "BuildReady", "refuses access", "serverless-package-registry-config")
	requireFailure(t, cluster, namespace, "private-wheel", "BuildReady", "shop-greeting", "serverless-package-registry-config")

	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, config(server.NPMRC(), server.PipConf())))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "private-npm", "hello from npm", built))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "private-wheel", "hello from a wheel", built))
}
