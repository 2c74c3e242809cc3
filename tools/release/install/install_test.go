package install_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rouse-run/rouse/tools/pack"
	"github.com/rouse-run/rouse/tools/release/archive"
	"github.com/rouse-run/rouse/tools/release/install"
	"github.com/rouse-run/rouse/tools/release/plan"
	"github.com/rouse-run/rouse/tools/release/program"
)

var release = plan.Release{Version: "v0.1.0", Registry: plan.DefaultRegistry}

// released is a folder with an archive for this machine and the manifests.
func released(t *testing.T, sum string) string {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(t.TempDir(), "rouse")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho rouse v0.1.0\n"), 0o700))
	platform := v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	require.NoError(t, archive.Write(filepath.Join(dir, release.Archive(platform)), []pack.File{{Path: "/rouse", Source: binary}}))
	if sum == "" {
		out, err := program.Program{Dir: dir}.Run(t.Context(), "sha256sum", release.Archive(platform))
		require.NoError(t, err)
		sum, _, _ = strings.Cut(out, " ")
	}
	require.NoError(t, install.Manifests(dir, release, []install.Archive{
		{Platform: platform, File: release.Archive(platform), SHA256: sum},
		{Platform: v1.Platform{OS: "plan9", Architecture: "mips"}, File: "other.tar.gz", SHA256: strings.Repeat("0", 64)},
	}))
	return dir
}

func TestTheScriptInstallsWhatWasReleased(t *testing.T) {
	t.Parallel()
	from, to := released(t, ""), t.TempDir()
	out, err := program.Program{Env: []string{"ROUSE_RELEASE=file://" + from}}.Run(t.Context(), "sh", filepath.Join(from, plan.Script), to)
	require.NoError(t, err)
	require.Contains(t, out, "installed "+to+"/rouse: rouse v0.1.0")
}

func TestTheScriptInstallsNothingElse(t *testing.T) {
	t.Parallel()
	from, to := released(t, strings.Repeat("0", 64)), t.TempDir()
	_, err := program.Program{Env: []string{"ROUSE_RELEASE=file://" + from}}.Run(t.Context(), "sh", filepath.Join(from, plan.Script), to)
	require.ErrorContains(t, err, "is not what was released")
	require.NoFileExists(t, filepath.Join(to, "rouse"))
}

func TestTheScriptNamesADirectoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	from := released(t, "")
	_, err := program.Program{}.Run(t.Context(), "sh", filepath.Join(from, plan.Script), filepath.Join(from, "none"))
	require.ErrorContains(t, err, "name another one")
}

func TestPackageManagersGetEachArchiveWithItsChecksum(t *testing.T) {
	t.Parallel()
	dir := released(t, strings.Repeat("1", 64))
	text, err := os.ReadFile(filepath.Join(dir, plan.Krew))
	require.NoError(t, err)
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &manifest))
	require.Equal(t, "rouse", manifest.Metadata.Name)
	require.Equal(t, "v0.1.0", manifest.Spec.Version)
	require.Len(t, manifest.Spec.Platforms, 2)
	require.Equal(t, strings.Repeat("1", 64), manifest.Spec.Platforms[0].SHA256)
	require.Equal(t, "kubectl-rouse", manifest.Spec.Platforms[0].Bin)
	require.Equal(t, plan.Repository+"/releases/download/v0.1.0/other.tar.gz", manifest.Spec.Platforms[1].URI)

	formula, err := os.ReadFile(filepath.Join(dir, plan.Homebrew))
	require.NoError(t, err)
	require.Contains(t, string(formula), `sha256 "`+strings.Repeat("1", 64)+`"`)
}

func TestAllCRDsOfTheChartAreInOneFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crds.yaml")
	require.NoError(t, install.CRDs(filepath.Join("..", "..", "..", "charts", "rouse"), file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	documents := strings.Split("\n"+string(text), "\n---\n")[1:]
	require.Len(t, documents, 4)
	for _, each := range documents {
		require.Contains(t, each, "\nkind: CustomResourceDefinition\n")
	}
}
