package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// named returns the manifest of a Function.
func named(name string) string { return strings.ReplaceAll(price, "name: price", "name: "+name) }

func namesIn(set Set) []string {
	names := make([]string, 0, len(set.Functions))
	for _, fn := range set.Functions {
		names = append(names, fn.Name)
	}
	return names
}

func TestFoldersOfHelmChartsAreSkipped(t *testing.T) {
	t.Parallel()
	set, problems := read(t, write(t, map[string]string{
		"fn.yaml": price, "chart/Chart.yaml": "name: shop\n", "chart/templates/fn.yaml": "kind: Function\n{{ end }}",
		"chart/kustomization.yaml": "resources: [nothing.yaml]\n",
	}))
	require.Empty(t, problems)
	require.Equal(t, []string{"price"}, namesIn(set))
}

func TestAChartAsTheFolderItselfIsAWarning(t *testing.T) {
	t.Parallel()
	set, problems := read(t, write(t, map[string]string{"Chart.yaml": "name: shop\n", "templates/fn.yaml": price}))
	require.Equal(t, []string{
		"warning: Chart.yaml: this folder is a Helm chart, whose templates are not read (read what helm template writes, in another folder)",
	}, problems)
	require.Empty(t, set.Functions)
}

func TestAYAMLFileWithoutAKindOfOursIsNoProblem(t *testing.T) {
	t.Parallel()
	_, problems := read(t, write(t, map[string]string{
		"compose.yaml": "services: {}\n", "list.yaml": "- a\n- b\n", "template.yaml": "{{ if .x }}\na: b\n{{ end }}\n",
		"duplicate.yaml": "a: 1\na: 2\n", "deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n",
		"half.yaml": "apiVersion: apps/v1\n", "tab.yaml": "a:\n\tb: 1\n", "functional.yaml": "kind: Functional\n",
	}))
	require.Empty(t, problems)
}

func TestAFileThatIsMeantForUsIsAProblem(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"a kind that is cut off":   "apiVersion: serverless.kyma-project.io/v1alpha2\nkind:\n",
		"YAML that is broken":      "kind: Function\n{",
		"JSON that is broken":      `{"kind": "Secret", `,
		"a kind in quotes":         "'kind' : 'Subscription'\n",
		"a group without its kind": "apiVersion: rouse.run/v1alpha1\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := read(t, write(t, map[string]string{"x.yaml": content}))
			require.Len(t, problems, 1)
		})
	}
}

func TestRouseignoreLeavesFilesOutAsGitWould(t *testing.T) {
	t.Parallel()
	set, problems := read(t, write(t, map[string]string{
		ignoreFile: "# comment\n\n/old/\n*.draft.yaml\r\n!kept.draft.yaml\ndeep/**/test.yaml\n",
		"fn.yaml":  price, "a.draft.yaml": "kind: Function\n{", "kept.draft.yaml": named("kept"),
		"old/fn.yaml": "kind: Function\n{", "new/old/fn.yaml": named("not-at-the-top"), "old/kustomization.yaml": "resources: [no.yaml]\n",
		"deep/er/test.yaml": "kind: Function\n{", "deep/er/fn.yaml": named("deeper"),
		"own/" + ignoreFile: "fn.yaml\n!b.draft.yaml\n", "own/fn.yaml": "kind: Function\n{", "own/b.draft.yaml": named("own"),
	}))
	require.Empty(t, problems)
	require.ElementsMatch(t, []string{"price", "kept", "not-at-the-top", "deeper", "own"}, namesIn(set))
}
