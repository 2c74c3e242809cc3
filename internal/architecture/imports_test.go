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

// packageRules lists, for each subtree, which packages of this module it may import. The longest prefix
// of a package's path counts; a package may always import those of its own subtree.
var packageRules = map[string][]string{
	"api":                           {},
	"internal/routing":              {"api"},
	"internal/broker":               {"api", "internal/routing", "internal/cloudevent", "internal/failure"},
	"internal/cloudevent":           {},
	"internal/failure":              {},
	"internal/budget":               {},
	"internal/daemon":               {},
	"internal/filter":               {"api", "internal/cloudevent"},
	"internal/interest":             {"api", "internal/routing"},
	"internal/kube":                 {"api", "internal/routing"},
	"internal/build":                {},
	"internal/workload":             {"api"},
	"internal/admission":            {"api", "internal/filter", "internal/routing", "internal/workload"},
	"internal/dialguard":            {},
	"internal/git":                  {"internal/dialguard"},
	"internal/dependencies":         {"internal/build"},
	"internal/registry":             {"internal/dialguard"},
	"internal/testing":              {"api", "internal"},
	"cli/trace":                     {"eventbridge/journal"},
	"internal/architecture":         {},
	"controller/function/resources": {"api", "internal/build", "internal/workload"},
	"controller":                    {"api", "internal"},
	"eventbridge/dispatch":          {"internal/cloudevent", "internal/failure"},
	"eventbridge":                   {"internal", "api"},
	"scaler":                        {"internal", "api"},
	"builder":                       {"internal"},
	"registryproxy":                 {"internal"},
	"runtimes":                      {},
	"dev":                           {"eventbridge", "scaler", "runtimes", "charts", "internal", "api"},
	"dev/manifest":                  {"charts", "internal", "api"},
	"dev/toolchain":                 {"runtimes", "dev/manifest", "internal", "api"},
	"dev/feed":                      {},
	"dev/process":                   {},
	"dev/function":                  {"dev/feed", "dev/process", "dev/manifest", "dev/toolchain", "internal", "api"},
	"dev/view":                      {"dev/function", "dev/feed", "dev/manifest", "eventbridge/journal"},
	"cli":                           {"dev", "eventbridge", "internal", "api"},
	"cli/scaffold":                  {"cli/exit", "internal", "api"},
	"cmd/rouse":                     {"cli", "dev/process"},
	"cmd":                           {"controller", "eventbridge", "scaler", "builder", "registryproxy", "internal", "api"},
	"charts":                        {"controller", "eventbridge", "scaler", "internal", "api"},
	"e2e":                           {"api", "internal", "eventbridge"},
	"docs":                          {"internal"},
	"samples":                       {},
}

// outside lists imports from other modules that only some packages may have.
var outside = map[string][]string{
	"github.com/nats-io/":                     {"internal/broker", "internal/testing/natstest", "dev/nats", "e2e"},
	"go.opentelemetry.io/":                    {"eventbridge/tracing", "internal/testing/otlptest"},
	"sigs.k8s.io/":                            {"internal/kube", "internal/testing", "internal/daemon", "controller", "cmd", "cli", "dev", "e2e", "charts", "api"},
	"k8s.io/client-go":                        {"internal/kube", "internal/testing", "controller", "cmd", "cli", "e2e", "charts"},
	"github.com/google/go-containerregistry/": {"internal/registry", "builder", "internal/testing", "e2e"},
	"github.com/go-git/":                      {"internal/git", "internal/testing"},
	"github.com/kedacore/keda/":               {"scaler", "controller", "dev/autoscale", "internal/testing", "e2e"},
	"github.com/charmbracelet/":               {"dev/view", "cli"},
}

type listedPackage struct {
	ImportPath string
	Imports    []string
}

func TestPackagesImportOnlyWhatTheirRuleAllows(t *testing.T) {
	t.Parallel()
	packages := list(t)
	require.Greater(t, len(packages), 5, "go list found too few packages to judge")
	for _, pkg := range packages {
		path := strings.TrimPrefix(pkg.ImportPath, module)
		subtree, allowed := ruleOf(path)
		require.NotEmpty(t, subtree, "no import rule for %s: add it to the table and to docs/architecture.md", path)
		for _, imported := range pkg.Imports {
			if inner, ok := strings.CutPrefix(imported, module); ok {
				fits := within(inner, subtree) || slices.ContainsFunc(allowed, func(a string) bool { return within(inner, a) })
				require.True(t, fits, "%s must not import %s", path, inner)
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

func TestPurePackagesImportNoClockClientOrContext(t *testing.T) {
	t.Parallel()
	impure := []string{"context", "time", "net/http", "log/slog", "github.com/go-logr/logr", "k8s.io/client-go/kubernetes"}
	for _, pkg := range list(t) {
		if !pure(strings.TrimPrefix(pkg.ImportPath, module)) {
			continue
		}
		for _, imported := range pkg.Imports {
			require.NotContains(t, impure, imported, "%s computes and nothing else", pkg.ImportPath)
		}
	}
}

func pure(path string) bool {
	return slices.Contains([]string{"controller/function/resources", "internal/workload", "internal/admission"}, path)
}

func ruleOf(path string) (subtree string, allowed []string) {
	for candidate, imports := range packageRules {
		if within(path, candidate) && len(candidate) > len(subtree) {
			subtree, allowed = candidate, imports
		}
	}
	return subtree, allowed
}

func within(path, subtree string) bool {
	return path == subtree || strings.HasPrefix(path, subtree+"/")
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
