package migrate

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// golden compares with a file of testdata. UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := "testdata/" + file
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestAPIRulesOfAFileAreConvertedAndTheRestPasses(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/in.yaml")
	require.NoError(t, err)
	result, err := APIRules("in.yaml", content)
	require.NoError(t, err)
	golden(t, "out.yaml", string(result.Content))
	golden(t, "report.txt", strings.Join(append(result.Notes, result.Problems...), "\n")+"\n")
	require.Equal(t, []int{2, 2, 3}, []int{result.Converted, result.Failed, result.Unchanged})

	again, err := APIRules("out.yaml", result.Content)
	require.NoError(t, err)
	require.Equal(t, string(result.Content), string(again.Content), "what is converted passes")
	require.Empty(t, again.Problems)
}

func TestManifestsWithoutOldAPIRulesPassByteForByte(t *testing.T) {
	t.Parallel()
	const text = "# first\r\napiVersion: v1\r\nkind: ConfigMap\r\ndata:\n  a: |\n   ---x\n" +
		"---\nkind: List\nitems:\n- {kind: Secret}\n" +
		"---\napiVersion: gateway.kyma-project.io/v2\nkind: APIRule\nspec: {} # without an annotation\n" +
		"---\napiVersion: example.com/v1beta1\nkind: APIRule\n"
	result, err := APIRules("a.yaml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, text, string(result.Content))
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
	result, err := APIRules("a.yaml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, text, string(result.Content))
	require.Equal(t, []string{"a.yaml: APIRule price: passes as it is, because it has a spec: that of its annotation " +
		"gateway.kyma-project.io/v1beta1-spec is not read"}, result.Notes)
}

func TestWhatIsNoManifestIsNamedWithItsDocument(t *testing.T) {
	t.Parallel()
	const old = "apiVersion: gateway.kyma-project.io/v1beta1\nkind: APIRule\n"
	for name, tc := range map[string]struct{ content, want string }{
		"a text that is no YAML":   {"kind: A\n---\na: [", "a.yaml: document 2 is no YAML"},
		"a list of words":          {"[a]", "a.yaml: document 1 is no Kubernetes object"},
		"a list of no objects":     {"kind: List\nitems: [null]", "a.yaml: document 1: item 0 of the list is no object"},
		"a spec of another form":   {old + "spec: {host: [1]}", "a.yaml: document 1: decode an APIRule"},
		"an annotation of no JSON": {strings.ReplaceAll(old, "v1beta1", "v2") + "metadata: {annotations: {gateway.kyma-project.io/original-version: v1beta1, gateway.kyma-project.io/v1beta1-spec: a}}", "decode the annotation gateway.kyma-project.io/v1beta1-spec"},
		"an APIRule that is large": {old + "spec: {host: " + strings.Repeat("a", 3<<20) + "}", "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := APIRules("a.yaml", []byte(tc.content))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func FuzzAPIRules(f *testing.F) {
	content, err := os.ReadFile("testdata/in.yaml")
	require.NoError(f, err)
	f.Add(string(content))
	f.Add("--- a\n---\n")
	f.Fuzz(func(t *testing.T, content string) {
		result, err := APIRules("a.yaml", []byte(content))
		if err != nil {
			return
		}
		again, err := APIRules("a.yaml", result.Content)
		require.NoError(t, err)
		require.Equal(t, string(result.Content), string(again.Content))
	})
}
