package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	"k8s.io/client-go":                        {"internal/kube", "internal/testing", "scaler/externalmetrics", "controller", "cmd", "cli", "e2e", "charts"},
	"github.com/google/go-containerregistry/": {"internal/registry", "builder", "internal/testing", "e2e"},
	"github.com/go-git/":                      {"internal/git", "internal/sourcefiles", "dev/manifest", "internal/testing"},
	"github.com/evanw/esbuild/":               {"internal/bundle"},
	"github.com/santhosh-tekuri/jsonschema/":  {"internal/eventschema"},
	"github.com/kedacore/keda/":               {"scaler", "controller", "dev/autoscale", "internal/testing", "e2e"},
	"github.com/prometheus/common/":           {"dashboard/alerts"},
	"github.com/charmbracelet/":               {"dev/view", "cli"},
	"github.com/go-jose/":                     {"gateway/jwt"},
	"github.com/coreos/go-oidc/":              {"dashboard/issuer", "internal/testing"},
	"golang.org/x/oauth2":                     {"dashboard/issuer", "cli/target"},
	"github.com/cloudevents/":                 {"cli/event"}, // everything else reads and writes events on the hot path
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

// rule is a row of the table in docs/architecture.md.
type rule struct {
	imports []string // folders of this module
	pure    bool
}

const (
	tableHead = "| folder | owns | may import |\n|---|---|---|\n"
	nothing   = "nothing of ours"
)

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	quotedList = regexp.MustCompile("^`[^`]+`(, `[^`]+`)*$")
)

// rules returns the rows of the table, by folder.
func rules(t *testing.T) map[string]rule {
	t.Helper()
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(page), tableHead)
	require.True(t, found, "docs/architecture.md has no table with the head %q", tableHead)
	table := map[string]rule{}
	for line := range strings.Lines(rows) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cells, 3, line)
		folders, owns, imports := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		require.Regexp(t, quotedList, folders, line)
		row := rule{pure: strings.HasSuffix(owns, "; pure")}
		if imports != nothing {
			require.Regexp(t, quotedList, imports, "folders or %q, and no other words: %s", nothing, line)
			row.imports = names(imports)
		}
		for _, folder := range names(folders) {
			require.NotContains(t, table, folder, "the table has two rows for this folder")
			require.DirExists(t, "../../"+folder)
			table[folder] = row
		}
	}
	return table
}

func names(cell string) []string {
	var all []string
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, match[1])
	}
	return all
}

// ruleOf returns the row of the longest folder that contains the package.
func ruleOf(table map[string]rule, path string) (folder string, row rule) {
	for candidate, r := range table {
		if within(path, candidate) && len(candidate) > len(folder) {
			folder, row = candidate, r
		}
	}
	return folder, row
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// impure lists packages that a pure one must not import, with their subpackages, and identifiers that it must not use
// of other packages.
var impure = struct {
	imports []string
	uses    map[string][]string
}{
	imports: []string{
		"context", "crypto/rand", "log", "math/rand", "net", "os", "syscall",
		"github.com/go-logr/logr",
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "k8s.io/client-go/tools", "sigs.k8s.io/controller-runtime",
	},
	uses: map[string][]string{
		"http": {"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "ListenAndServe", "Post", "PostForm", "Server", "Transport"},
		"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"},
	},
}

// mayImport lists packages below impure ones that a pure package may import for their types.
var mayImport = []string{"net/http", "net/netip", "net/url"}

func TestPurePackagesUseNoClockContextFileNetworkOrLog(t *testing.T) {
	t.Parallel()
	table, found := rules(t), 0
	for _, pkg := range list(t) {
		path := strings.TrimPrefix(pkg.ImportPath, module)
		if _, row := ruleOf(table, path); !row.pure {
			continue
		}
		found++
		for _, file := range sources(t, path) {
			requirePure(t, file)
		}
	}
	require.Greater(t, found, 5, "the table lists too few pure packages")
}

func sources(t *testing.T, path string) []string {
	t.Helper()
	files, err := filepath.Glob("../../" + path + "/*.go")
	require.NoError(t, err)
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

func requirePure(t *testing.T, file string) {
	t.Helper()
	const isPure = "%s uses %s, and docs/architecture.md calls its folder pure"
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		forbidden := slices.ContainsFunc(impure.imports, func(i string) bool { return within(imported, i) })
		require.False(t, forbidden && !slices.Contains(mayImport, imported), isPure, file, imported)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok {
				require.NotContains(t, impure.uses[name.Name], selector.Sel.Name, isPure, file, name.Name+"."+selector.Sel.Name)
			}
		}
		return true
	})
}
