package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rouse-run/rouse/"

// outside lists imports from other modules that only some packages may have.
var outside = map[string][]string{
	"github.com/nats-io/":                     {"internal/broker", "internal/testing/natstest", "dev/nats", "e2e"},
	"go.opentelemetry.io/":                    {"eventbridge/tracecontext", "scaler/kedaspans", "internal/tracing", "internal/testing/otlptest"},
	"sigs.k8s.io/":                            {"internal/kube", "internal/testing", "internal/daemon", "internal/settings", "controller", "gateway/conditions", "cmd", "cli", "dev", "e2e", "charts", "api"},
	"k8s.io/client-go":                        {"internal/kube", "internal/testing", "controller", "cmd", "cli", "e2e", "charts"},
	"github.com/google/go-containerregistry/": {"internal/registry", "builder", "internal/testing", "e2e"},
	"github.com/go-git/":                      {"internal/git", "internal/testing"},
	"github.com/kedacore/keda/":               {"scaler", "controller", "dev/autoscale", "internal/testing", "e2e"},
	"github.com/charmbracelet/":               {"dev/view", "cli"},
	"github.com/go-jose/":                     {"gateway/jwt"},
	"github.com/cloudevents/":                 {"cli/event"}, // elsewhere events are read and written on the hot path
}

type listedPackage struct {
	ImportPath string
	Imports    []string
}

func TestPackagesImportOnlyWhatTheirRuleAllows(t *testing.T) {
	t.Parallel()
	table, packages := rules(t), list(t)
	require.Greater(t, len(packages), 5, "go list found too few packages to judge")
	for _, pkg := range packages {
		path := strings.TrimPrefix(pkg.ImportPath, module)
		folder, row := ruleOf(table, path)
		require.NotEmpty(t, folder, "no row for %s: add one to the table in docs/architecture.md", path)
		for _, imported := range pkg.Imports {
			if inner, ok := strings.CutPrefix(imported, module); ok {
				fits := within(inner, folder) || slices.ContainsFunc(row.imports, func(a string) bool { return within(inner, a) })
				require.True(t, fits, "%s must not import %s: see the table in docs/architecture.md", path, inner)
				continue
			}
			for prefix, who := range outside {
				if strings.HasPrefix(imported, prefix) {
					fits := slices.ContainsFunc(who, func(w string) bool { return within(path, w) })
					require.True(t, fits, "%s must not import %s", path, imported)
				}
			}
		}
	}
}

func list(t *testing.T) []listedPackage {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	command.Dir = "../.."
	out, err := command.Output()
	require.NoError(t, err)
	var packages []listedPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg listedPackage
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return packages
		} else {
			require.NoError(t, err)
		}
		packages = append(packages, pkg)
	}
}
