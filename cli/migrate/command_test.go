package migrate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

const (
	good = `apiVersion: gateway.kyma-project.io/v1beta1
kind: APIRule
metadata: {name: price, namespace: shop}
spec: {host: price, gateway: a/b, service: {name: price, port: 80}, rules: [{path: /a, methods: [GET], accessStrategies: [{handler: noop}]}]}
`
	other = "kind: Namespace\n"
)

// execute runs `rouse migrate` with the arguments.
func execute(t *testing.T, in string, args ...string) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := NewCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestMigrateReadsFilesAndTheInputInTheirOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte(other), 0o600))
	out, errs, err := execute(t, good, "apirule", path, "-", path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out, other+"---\napiVersion: gateway.kyma-project.io/v2\nkind: APIRule\n"), out)
	require.True(t, strings.HasSuffix(out, "\n---\n"+other), out)
	require.Equal(t, "APIRules written as v2: 1, left out: 0; other objects, unchanged: 2\n", errs)

	alone, _, err := execute(t, good, "apirules")
	require.NoError(t, err)
	require.Contains(t, out, alone, "without an argument it reads the input")
}

func TestMigrateFailsAfterAllWhenAnAPIRuleCannotBeConverted(t *testing.T) {
	t.Parallel()
	bad := strings.ReplaceAll(good, "path: /a", `path: "/[a]"`)
	out, errs, err := execute(t, bad+"---\n"+other, "apirule")
	require.Equal(t, exit.Failed, exit.CodeOf(err))
	require.EqualError(t, err, "1 of the APIRules cannot be written as v2: correct them as listed, or write them anew")
	require.Equal(t, other, out)
	require.Contains(t, errs, `the input: APIRule shop/price: .spec.rules[0].path: the regular expression "/[a]" cannot be written: use {*} for a segment`)
	require.Contains(t, errs, "left out: 1")
}

func TestMigrateWritesFilesIntoAFolderAndOverwritesNone(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "deep", "er")
	path := filepath.Join(from, "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte(good), 0o600))
	out, _, err := execute(t, other, "apirule", "-o", to, path, "-")
	require.NoError(t, err)
	require.Empty(t, out)
	text, err := os.ReadFile(filepath.Join(to, "a.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "apiVersion: gateway.kyma-project.io/v2")
	text, err = os.ReadFile(filepath.Join(to, "manifests.yaml"))
	require.NoError(t, err)
	require.Equal(t, other, string(text))

	_, _, err = execute(t, "", "apirule", "-o", from, path)
	require.ErrorContains(t, err, "a.yaml is there already; nothing was written: take another --output")
	require.Equal(t, exit.Failed, exit.CodeOf(err))
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, good, string(text))
}

func TestMigrateRefusesAWrongCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"another kind":               {[]string{"function"}, `there is nothing to migrate called "function": use migrate apirule`},
		"a file that is not there":   {[]string{"apirule", filepath.Join(dir, "none")}, "none"},
		"a folder":                   {[]string{"apirule", dir}, "is a directory"},
		"an input that is no object": {[]string{"apirule"}, "the input: document 1 is no Kubernetes object"},
		"two files of one name":      {[]string{"apirule", "-o", dir, "-", "-"}, "would both become"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := "[]"
			if len(tc.args) > 3 {
				in = ""
			}
			_, _, err := execute(t, in, tc.args...)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, exit.Usage, exit.CodeOf(err))
		})
	}
}
