package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

const oldAPIRule = `apiVersion: gateway.kyma-project.io/v1beta1
kind: APIRule
metadata: {name: price, namespace: shop}
spec: {host: price, gateway: a/b, service: {name: price, port: 80}, rules: [{path: /a, methods: [GET], accessStrategies: [{handler: noop}]}]}
`

func convertAPIRules(t *testing.T, path string, content []byte) (Result, error) {
	t.Helper()
	return Manifests(t.Context(), []File{{path, content}}, isOldAPIRule)
}

// executeMigrate runs `rouse migrate` with the arguments.
func executeMigrate(t *testing.T, in string, args ...string) (out, errs string, err error) {
	t.Helper()
	return executeCommand(t, NewMigrate(), in, args...)
}

func TestAPIRulesOfAFileAreConvertedAndTheRestPasses(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/apirules/in.yaml")
	require.NoError(t, err)
	result, err := convertAPIRules(t, "in.yaml", content)
	require.NoError(t, err)
	golden(t, "apirules/out.yaml", string(result.Files[0].Content))
	golden(t, "apirules/report.txt", strings.Join(append(result.Notes, result.Problems...), "\n")+"\n")
	require.Equal(t, []int{2, 2, 3}, []int{result.APIRules.Converted, result.APIRules.Failed, result.Unchanged})

	again, err := convertAPIRules(t, "out.yaml", result.Files[0].Content)
	require.NoError(t, err)
	require.Equal(t, string(result.Files[0].Content), string(again.Files[0].Content), "a converted file must pass unchanged")
	require.Empty(t, again.Problems)
}

func TestManifestsWithoutOldAPIRulesPassByteForByte(t *testing.T) {
	t.Parallel()
	const text = "# first\r\napiVersion: v1\r\nkind: ConfigMap\r\ndata:\n  a: |\n   ---x\n" +
		"---\nkind: List\nitems:\n- {kind: Secret}\n" +
		"---\napiVersion: gateway.kyma-project.io/v2\nkind: APIRule\nspec: {} # without an annotation\n" +
		"---\napiVersion: example.com/v1beta1\nkind: APIRule\n"
	result, err := convertAPIRules(t, "a.yaml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, text, string(result.Files[0].Content))
	require.Equal(t, 4, result.Unchanged)
}

func TestAPIRuleThatWasRewrittenAsV2IsNotConvertedFromItsAnnotation(t *testing.T) {
	t.Parallel()
	const text = `apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata:
  name: price
  annotations: {gateway.kyma-project.io/original-version: v1beta1, gateway.kyma-project.io/v1beta1-spec: '{"host":"old"}'}
spec: {hosts: [new]}
`
	result, err := convertAPIRules(t, "a.yaml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, text, string(result.Files[0].Content))
	require.Equal(t, []string{"a.yaml: APIRule price: passes unchanged, because it has a spec: the one in its annotation " +
		"gateway.kyma-project.io/v1beta1-spec is not read"}, result.Notes)
}

func TestInvalidDocumentIsReportedWithItsNumber(t *testing.T) {
	t.Parallel()
	const old = "apiVersion: gateway.kyma-project.io/v1beta1\nkind: APIRule\n"
	for name, tc := range map[string]struct{ content, want string }{
		"a text that is not valid YAML": {"kind: A\n---\na: [", "a.yaml: document 2 is not valid YAML"},
		"a list of words":               {"[a]", "a.yaml: document 1 is not a Kubernetes object"},
		"a list of no objects":          {"kind: List\nitems: [null]", "a.yaml: document 1: item 0 of the list is not an object"},
		"a spec of another form":        {old + "spec: {host: [1]}", "a.yaml: document 1: decode an APIRule"},
		"an annotation of no JSON":      {strings.ReplaceAll(old, "v1beta1", "v2") + "metadata: {annotations: {gateway.kyma-project.io/original-version: v1beta1, gateway.kyma-project.io/v1beta1-spec: a}}", "decode the annotation gateway.kyma-project.io/v1beta1-spec"},
		"an APIRule that is large":      {old + "spec: {host: " + strings.Repeat("a", 3<<20) + "}", "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := convertAPIRules(t, "a.yaml", []byte(tc.content))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestMigrateReadsFilesAndTheInputInTheirOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte(other), 0o600))
	out, errs, err := executeMigrate(t, oldAPIRule, "apirule", path, "-", path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out, other+"---\napiVersion: gateway.kyma-project.io/v2\nkind: APIRule\n"), out)
	require.True(t, strings.HasSuffix(out, "\n---\n"+other), out)
	require.Equal(t, "APIRules written as v2: 1, left out: 0; other objects, unchanged: 2\n", errs)

	alone, _, err := executeMigrate(t, oldAPIRule, "apirules")
	require.NoError(t, err)
	require.Contains(t, out, alone, "without an argument it reads the input")
}

func TestMigrateFailsAfterAllWhenAnAPIRuleCannotBeConverted(t *testing.T) {
	t.Parallel()
	bad := strings.ReplaceAll(oldAPIRule, "path: /a", `path: "/[a]"`)
	out, errs, err := executeMigrate(t, bad+"---\n"+other, "apirule")
	require.Equal(t, exit.Failed, exit.CodeOf(err))
	require.EqualError(t, err, "1 of the APIRules cannot be written as v2: correct them as listed, or write them by hand")
	require.Equal(t, other, out)
	require.Contains(t, errs, `the input: APIRule shop/price: .spec.rules[0].path: the regular expression "/[a]" cannot be written: use {*} for a segment`)
	require.Contains(t, errs, "left out: 1")
}

func TestMigrateWritesFilesIntoAFolderAndOverwritesNone(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "deep", "er")
	path := filepath.Join(from, "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte(oldAPIRule), 0o600))
	out, _, err := executeMigrate(t, other, "apirule", "-o", to, path, "-")
	require.NoError(t, err)
	require.Empty(t, out)
	text, err := os.ReadFile(filepath.Join(to, "a.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "apiVersion: gateway.kyma-project.io/v2")
	text, err = os.ReadFile(filepath.Join(to, "manifests.yaml"))
	require.NoError(t, err)
	require.Equal(t, other, string(text))

	_, _, err = executeMigrate(t, "", "apirule", "-o", from, path)
	require.ErrorContains(t, err, "a.yaml exists; nothing was written: take another --output")
	require.Equal(t, exit.Failed, exit.CodeOf(err))
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, oldAPIRule, string(text))
}

func TestMigrateRefusesAWrongCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"another kind":                   {[]string{"function"}, `there is nothing to migrate called "function": see migrate --help`},
		"a missing file":                 {[]string{"apirule", filepath.Join(dir, "none")}, "none"},
		"a folder without manifests":     {[]string{"apirule", dir}, "contains no .yaml, .yml or .json file"},
		"an input that is not an object": {[]string{"apirule"}, "the input: document 1 is not a Kubernetes object"},
		"two files of the same name":     {[]string{"apirule", "-o", dir, "-", "-"}, "would both become"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := "[]"
			if len(tc.args) > 3 {
				in = ""
			}
			_, _, err := executeMigrate(t, in, tc.args...)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, exit.Usage, exit.CodeOf(err))
		})
	}
}
