package rouse

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDockerfileBuildsTheSameBinaries(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "Dockerfile"))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(text), strings.Join(commands(), " ")+"\n"), "once for the notices of licences, once to compile")
}

func TestDockerfileCopiesAllSourcesOfTheBinaries(t *testing.T) {
	t.Parallel()
	const root, module = "../../..", "github.com/rouse-run/rouse/"
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	ignored, err := os.ReadFile(filepath.Join(root, "Dockerfile.dockerignore"))
	require.NoError(t, err)
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, commands()...)...)
	list.Dir = root
	packages, err := list.Output()
	require.NoError(t, err)
	found := 0
	for name := range strings.FieldsSeq(string(packages)) {
		inner, ours := strings.CutPrefix(name, module)
		if !ours {
			continue
		}
		found++
		folder, _, _ := strings.Cut(inner, "/")
		require.Contains(t, string(dockerfile), "\nCOPY "+folder+" "+folder+"\n", name)
		require.Contains(t, string(ignored), "\n!"+folder+"\n", name)
	}
	require.Greater(t, found, 50)
}

func TestBinariesAreBuiltWithOneFIPSModuleEverywhere(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"Dockerfile": "\n", "Makefile": "\n", "tools/release/compile.go": `"`} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), "GOFIPS140="), name)
		require.Contains(t, string(text), FIPSModule+end, name)
	}
	module, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(module), "\ngodebug fips140=off\n", "without this line the binary would be in FIPS mode")
}

func TestEveryCommandExceptTheCommandLineIsInTheImage(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob(filepath.Join("..", "..", "..", "cmd", "*"))
	require.NoError(t, err)
	var found []string
	for _, folder := range folders {
		if name := filepath.Base(folder); name != "rouse" {
			found = append(found, "./cmd/"+name)
		}
	}
	require.Equal(t, commands(), found)
}
