package scaffold

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// typed returns the Functions whose language has types.
func typed() map[string]Function {
	found := map[string]Function{}
	for name, f := range every() {
		if known, err := languages.Of(f.Runtime); err == nil && known.Scaffold.Typed != nil && !f.Dependencies {
			f.Typed = true
			found[name] = f
		}
	}
	return found
}

func TestTheFilesOfATypedFunctionAreListed(t *testing.T) {
	t.Parallel()
	for name, f := range typed() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := write(t, f)
			set, problems, err := manifest.Read(folder)
			require.NoError(t, err)
			for _, problem := range problems {
				require.True(t, problem.Warning, problem.Error())
			}
			require.Len(t, set.Functions, 1)
			fn := set.Functions[0]
			require.True(t, fn.Files.ConfigMap)
			require.Equal(t, []string{"handler.ts", "package.json", "tsconfig.json"}, fn.Files.Content.Names())
			handler, err := os.ReadFile(filepath.Join(folder, "handler.ts"))
			require.NoError(t, err)
			require.Equal(t, string(handler), string(fn.Files.Content["handler.ts"]))

			require.NoError(t, os.Remove(filepath.Join(folder, kustomizationFile)))
			set, _, err = manifest.Read(folder)
			require.NoError(t, err)
			require.Equal(t, fn.Files.Content, set.Functions[0].Files.Content, "the folder has to be what is listed")
		})
	}
}

func TestTheTestOfATypedFunctionPasses(t *testing.T) {
	t.Parallel()
	strips := exec.CommandContext(t.Context(), "node", "--input-type=module-typescript", "-e", "const a: number = 1")
	if strips.Run() != nil {
		t.Skip("the Node.js of this machine is older than 22.18, and runs no TypeScript by itself")
	}
	for name, f := range typed() {
		if f.Host != "" {
			continue // the handlers and tests are the same
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := runTests(t, f, write(t, f))
			require.NoError(t, err, out)
		})
	}
}

func TestTypesAreForLanguagesThatHaveThem(t *testing.T) {
	t.Parallel()
	_, err := execute(t, "thanks", "--runtime", "python", "--typescript", "--directory", t.TempDir())
	require.ErrorContains(t, err, "--typescript is not for Python: leave it out, or take another --runtime")
	out, err := execute(t, "thanks", "--typescript", "--directory", t.TempDir())
	require.NoError(t, err)
	require.Contains(t, out, "  kustomization.yaml    lists the files of the Function\n")
	require.Contains(t, out, "  rouse.d.ts            types of events, context and SDK\n")
}

func TestAnAPIServerAcceptsATypedFunctionWithItsFiles(t *testing.T) {
	t.Parallel()
	env := controlPlane.Environment(t)
	f := typed()["nodejs22 by events"]
	f.Namespace = env.Namespace(t)
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), write(t, f))
	require.NoError(t, err)
	require.Equal(t, 3, objects.Size())
	for _, object := range objects.Resources() {
		text, err := object.AsYAML()
		require.NoError(t, err)
		strict := client.FieldValidation(metav1.FieldValidationStrict)
		require.NoError(t, env.Client.Create(t.Context(), envtest.Object(t, string(text)), strict), "%s", text)
	}
}
