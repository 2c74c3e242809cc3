package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// evidence is where a version of the table comes from: the first group of the pattern.
type evidence struct{ file, pattern string }

func (e evidence) version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(e.file)))
	require.NoError(t, err)
	found := regexp.MustCompile(e.pattern).FindStringSubmatch(string(text))
	require.NotNil(t, found, "%s has nothing like %s", e.file, e.pattern)
	return found[1]
}

func TestCompatibilityTableContainsTheTestedAndRequiredVersions(t *testing.T) {
	t.Parallel()
	const components = "e2e/cluster/components/"
	sources := map[string]struct{ supported, tested []evidence }{
		"Kubernetes": {
			supported: []evidence{{"charts/rouse/Chart.yaml", `kubeVersion: ">=(\d+\.\d+)\.0-0"`}},
			tested: []evidence{
				{components + "kubernetes/go.mod", `k8s\.io/kubernetes v(\S+)`},
				{"e2e/cluster/components/components.go", `kubernetesVersion = "v(\S+)"`},
			},
		},
		"KEDA": {
			supported: []evidence{{"charts/rouse/templates/NOTES.txt", `Install KEDA (\S+) or newer`}, {"charts/rouse/values.yaml", `Needs KEDA in the cluster before, since (\S+)\.\n`}},
			tested:    []evidence{{components + "keda/go.mod", `kedacore/keda/v2 v(\S+)`}, {"e2e/kind.sh", `\nkeda=(\S+)`}},
		},
		"NATS": {
			supported: []evidence{{"docs/nats.md", `Version (\S+) or later with JetStream`}, {"internal/broker/errors.go", `NATS to (\S+) or later`}},
			tested: []evidence{
				{components + "nats/go.mod", `nats-server/v2 v(\S+)`},
				{"go.mod", `nats-server/v2 v(\S+)`},
				{"charts/rouse/values.yaml", `repository: docker\.io/library/nats\n +tag: "(\S+)"`},
			},
		},
		"Helm": {
			supported: []evidence{{"tools/go.mod", `helm\.sh/helm/v3 v(\d+\.\d+)`}},
			tested:    []evidence{{"tools/go.mod", `helm\.sh/helm/v3 v(\S+)`}},
		},
		"Gateway API": {tested: []evidence{{"go.mod", `sigs\.k8s\.io/gateway-api v(\S+)`}, {components + "envoy-gateway/go.mod", `sigs\.k8s\.io/gateway-api v(\S+)`}}},
		"Go": {
			supported: []evidence{{"go.mod", `\ngo (\d+\.\d+)`}, {"CONTRIBUTING.md", `Go (\d+\.\d+)`}, {"Dockerfile", `golang:(\d+\.\d+)`}},
			tested:    []evidence{{"e2e/cluster/rouse/runtimes.go", `goVersion = "(\S+)"`}},
		},
	}
	rows := table(t, "part")
	require.Len(t, rows, len(sources), "each row needs its evidence")
	for part, source := range sources {
		row, found := rows[part]
		require.True(t, found, part)
		for _, e := range source.supported {
			require.Equal(t, e.version(t), row[1], "%s is supported from what %s says", part, e.file)
		}
		for _, e := range source.tested {
			require.Equal(t, e.version(t), row[2], "%s is tested in the version of %s", part, e.file)
		}
	}
}

func TestOtherPagesLinkToTheTableOfCompatibility(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"../README.md", "operations.md", "cli.md", "../SECURITY.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		_, _, links := strings.Cut(string(text), "compatibility.md")
		require.True(t, links, page)
	}
}

// table are the rows of the one whose first column is called so, by their first cell.
func table(t *testing.T, column string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("compatibility.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n| "+column+" |")
	require.True(t, found, column)
	rows := map[string][]string{}
	for i, line := range strings.Split(after, "\n") {
		if i < 2 { // the rest of the heading, and the line below
			continue
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = cells
	}
	return rows
}
