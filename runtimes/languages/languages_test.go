package languages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestARuntimeBelongsToOneLanguage(t *testing.T) {
	t.Parallel()
	for _, each := range all {
		for _, runtime := range each.Runtimes {
			found, err := Of(runtime.Name)
			require.NoError(t, err)
			require.Same(t, each, found, runtime.Name)
		}
	}
}

func TestErrorForAnUnknownRuntimeListsTheRuntimes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "ruby34", "nodejs", "python", "nodejs22x", "nodejs-22", "Nodejs22", "22"} {
		_, err := Of(name)
		require.ErrorContains(t, err, "there is no runtime "+name+"; take one of nodejs20, nodejs22, ", name)
	}
}

func TestRemovedRuntimeStillBelongsToItsLanguage(t *testing.T) {
	t.Parallel()
	for runtime, language := range map[string]string{"nodejs18": "nodejs", "python39": "python"} {
		found, err := Of(runtime)
		require.NoError(t, err)
		require.Equal(t, language, found.Name)
		require.Equal(t, runtime, found.Runtime(runtime).Name)
		require.NotContains(t, Runtimes(), runtime)
	}
}

func TestEveryLanguageIsDescribedCompletely(t *testing.T) {
	t.Parallel()
	for _, each := range all {
		require.DirExists(t, filepath.Join("..", each.Folder))
		require.Contains(t, Runtimes(), each.Default, each.Name)
		for what, text := range map[string]string{
			"Title": each.Title, "FunctionDir": each.FunctionDir, "Handler": each.Handler, "Packages.Program": each.Packages.Program,
			"Packages.Manifest": each.Packages.Manifest, "Packages.Settings": each.Packages.Settings,
			"Local.ManagerRemedy": each.Local.ManagerRemedy, "Local.TrustVariable": each.Local.TrustVariable, "Local.Program": each.Local.Program, "Local.Flag": each.Local.Flag, "Local.Remedy": each.Local.Remedy,
			"Ejected.Server": each.Ejected.Server, "Ejected.Dockerfile": each.Ejected.Dockerfile, "Ejected.Run": each.Ejected.Run,
			"Ejected.Base":  each.Ejected.Base(each.Default),
			"Scaffold.Test": each.Scaffold.Test, "Scaffold.TestCommand": each.Scaffold.TestCommand,
		} {
			require.NotEmpty(t, text, "%s of %s", what, each.Name)
		}
		require.NotNil(t, each.Packages.Matters, each.Name)
		require.NotNil(t, each.Packages.Classify, each.Name)
		require.Equal(t, each.Local.Debugger.Args == nil, each.Local.Debugger.Map == nil, each.Name)
		require.Equal(t, each.Local.Debugger.Args == nil, each.Scaffold.LaunchConfig == "", each.Name)
		if each.Compiled != nil {
			require.NotEmpty(t, each.Compiled.Binary, each.Name)
			require.NotEmpty(t, each.Compiled.ServerDir, each.Name)
			require.NotNil(t, each.Compiled.Project, each.Name)
			require.NotNil(t, each.Compiled.Build, each.Name)
			require.Nil(t, each.Kyma, "images of Kyma's contract take a source, not a binary")
			continue
		}
		require.NotEmpty(t, each.Packages.Dir, each.Name)
		require.NotNil(t, each.Packages.Install, each.Name)
		require.NotNil(t, each.Local.Entry, each.Name)
	}
}

func TestTheResourceAcceptsTheRuntimesOfTheList(t *testing.T) {
	t.Parallel()
	var definition apiextensionsv1.CustomResourceDefinition
	read(t, "charts/rouse/files/crds/serverless.kyma-project.io_functions.yaml", &definition)
	require.NotEmpty(t, definition.Spec.Versions)
	for _, version := range definition.Spec.Versions {
		runtime := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["runtime"]
		var accepted []string
		for _, value := range runtime.Enum {
			name, err := strconv.Unquote(string(value.Raw))
			require.NoError(t, err)
			accepted = append(accepted, name)
		}
		require.ElementsMatch(t, Runtimes(), accepted, version.Name)
	}
}

func TestTheAPINamesTheRuntimesOfTheList(t *testing.T) {
	t.Parallel()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "api", "serverless", "v1alpha2", "function.go"), nil, 0)
	require.NoError(t, err)
	var named []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Runtime" {
			for _, value := range spec.Values {
				name, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				require.NoError(t, err)
				named = append(named, name)
			}
		}
		return true
	})
	require.ElementsMatch(t, Runtimes(), named)
}

func TestTheChartHasAnImageForEveryRuntimeOfTheList(t *testing.T) {
	t.Parallel()
	var values struct {
		Runtimes map[string]string `json:"runtimes"`
	}
	read(t, "charts/rouse/values.yaml", &values)
	var schema struct {
		Properties struct {
			Runtimes struct {
				Properties map[string]any `json:"properties"`
			} `json:"runtimes"`
		} `json:"properties"`
	}
	read(t, "charts/rouse/values.schema.json", &schema)
	require.ElementsMatch(t, Runtimes(), keys(values.Runtimes))
	require.ElementsMatch(t, Runtimes(), keys(schema.Properties.Runtimes.Properties))
}

func TestTheLocalClusterHasEveryRuntimeOfTheList(t *testing.T) {
	t.Parallel()
	// It is in a separate module, which imports nothing of this one.
	text, err := os.ReadFile(filepath.Join("..", "..", "e2e", "cluster", "rouse", "runtimes.go"))
	require.NoError(t, err)
	for _, name := range Runtimes() {
		require.Contains(t, string(text), `"`+name+`"`, "the catalogue of the local cluster lacks it")
	}
}

func keys[V any](of map[string]V) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	return names
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}
