//go:build e2e

package features

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/verbs"
)

const deployedFolder = `
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: hello}
spec:
  runtime: nodejs22
  scaleConfig: {minReplicas: 0, maxReplicas: 1}
  source:
    inline:
      source: "module.exports = {main: () => 'one'}"
---
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: hello}
spec: {source: deploy, types: [hello.v1], sink: "http://hello.NAMESPACE.svc.cluster.local"}
`

// commandIn builds the command rouse for a namespace of the cluster.
func commandIn(t *testing.T, namespace string) verbs.Rouse {
	t.Helper()
	program, err := verbs.Build(t.Context(), filepath.Join("..", ".."), t.TempDir())
	require.NoError(t, err)
	return verbs.Rouse{Program: program, Where: []string{"--kubeconfig", os.Getenv("KUBECONFIG"), "-n", namespace}}
}

// cliIn returns a function that runs the command line in a namespace, with an expected exit code, and returns its standard output.
func cliIn(t *testing.T, namespace string) func(want int, args ...string) string {
	t.Helper()
	command := commandIn(t, namespace)
	return func(want int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		cmd := command.Command(t.Context(), args...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run() // its code is compared
		t.Logf("%s: %d\n%s%s", cmd, cmd.ProcessState.ExitCode(), out.String(), errs.String())
		require.Equal(t, want, cmd.ProcessState.ExitCode())
		return out.String()
	}
}

// A folder is deployed, changed, compared, described, called, rolled back and deleted by the verbs alone.
func TestTheVerbsOfTheCommandLineBringAFolderIntoAClusterAndOutOfIt(t *testing.T) {
	t.Parallel()
	_, namespace := connect(t)
	folder := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(strings.ReplaceAll(content, "NAMESPACE", namespace)), 0o600))
	}
	rouse := cliIn(t, namespace)
	write("hello.yaml", deployedFolder)
	write("greeting.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\ndata: {text: hello}\n")
	require.Regexp(t, `function/hello +created +ready +http://hello\.`, rouse(0, "deploy", folder))
	require.Equal(t, "one", rouse(0, "invoke", "hello"))

	write("hello.yaml", strings.Replace(deployedFolder, "'one'", "'two'", 1))
	require.NoError(t, os.Remove(filepath.Join(folder, "greeting.yaml")))
	require.Contains(t, rouse(1, "diff", folder), "'two'")
	deployed := rouse(0, "deploy", folder, "--prune")
	require.Regexp(t, `function/hello +configured +ready`, deployed)
	require.Regexp(t, `configmap/greeting +deleted`, deployed)
	require.Empty(t, rouse(0, "diff", folder, "--prune"))
	require.Equal(t, "two", rouse(0, "invoke", "hello"))

	page := rouse(0, "describe", "function", "hello")
	require.Regexp(t, `(?m)^Ready +True`, page)
	require.Regexp(t, `(?m)^Versions\nVERSION.*\n\S+ .*runs\n\S+ `, page)
	require.Regexp(t, `hello +ready +deploy +hello\.v1`, page)

	rouse(0, "rollback", "hello", "--timeout", "2m")
	require.Equal(t, "one", rouse(0, "invoke", "hello"))
	rouse(0, "rollback", "hello", "--forward", "--timeout", "2m")
	rouse(0, "pause", "function", "hello")
	require.Regexp(t, `hello +paused`, rouse(0, "get", "subscriptions"))
	rouse(0, "resume", "function", "hello")

	require.Contains(t, rouse(0, "delete", folder, "--prune", "-o", "name"), "function/hello\n")
	require.NotContains(t, rouse(0, "get", "functions", "-o", "name"), "hello")
}

const typedFolder = `
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: price}
spec:
  annotations: {rouse.run/files: price-files}
  runtime: nodejs22
  source: {inline: {source: "// handler.ts"}}
`

func TestAFolderInTypeScriptIsDeployedWithAllItsFiles(t *testing.T) {
	t.Parallel()
	_, namespace := connect(t)
	folder := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	rouse := cliIn(t, namespace)
	write("function.yaml", typedFolder)
	write("handler.ts", "import { rate } from './lib/rates'\nenum Unit { Euro = 'EUR' }\nexport const main = (): string => rate() + ' ' + Unit.Euro\n")
	write("lib/rates.ts", "export const rate = (): number => 7\n")
	write(".env", "PASSWORD=hush\n")
	require.Regexp(t, `configmap/price-files +created`, rouse(0, "deploy", folder))
	require.Equal(t, "7 EUR", rouse(0, "invoke", "price"))

	write("lib/rates.ts", "export const rate = (): number => 8\n")
	require.Regexp(t, `configmap/price-files +configured`, rouse(0, "deploy", folder))
	require.Equal(t, "8 EUR", rouse(0, "invoke", "price"))

	// A copy for development needs no build, and the next deploy brings the files back.
	write("lib/rates.ts", "export const rate = (): number => 9\n")
	require.Contains(t, rouse(0, "sync", folder), "function/price answers with what was saved after ")
	require.Equal(t, "9 EUR", rouse(0, "invoke", "price"))
	require.Contains(t, rouse(1, "diff", folder), "rouse.run/files")
	rouse(0, "deploy", folder)
	require.Equal(t, "9 EUR", rouse(0, "invoke", "price"))
	require.Empty(t, rouse(0, "diff", folder))
}
