package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rouse-run/rouse/tools/pack"
)

var installRelease = release{Version: "v0.1.0", Registry: defaultRegistry}

// released makes a folder with an archive for this machine and the manifests.
func released(t *testing.T, sum string) string {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(t.TempDir(), "rouse")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho rouse v0.1.0\n"), 0o700))
	platform := v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	require.NoError(t, writeArchive(filepath.Join(dir, installRelease.Archive(platform)), []pack.File{{Path: "/rouse", Source: binary}}))
	if sum == "" {
		out, err := program{Dir: dir}.Run(t.Context(), "sha256sum", installRelease.Archive(platform))
		require.NoError(t, err)
		sum, _, _ = strings.Cut(out, " ")
	}
	require.NoError(t, writeManifests(dir, installRelease, []commandArchive{
		{Platform: platform, File: installRelease.Archive(platform), SHA256: sum},
		{Platform: v1.Platform{OS: "plan9", Architecture: "mips"}, File: "other.tar.gz", SHA256: strings.Repeat("0", 64)},
	}))
	return dir
}

func TestScriptInstallsTheReleasedArchive(t *testing.T) {
	t.Parallel()
	from, to := released(t, ""), t.TempDir()
	out, err := program{Env: []string{"ROUSE_RELEASE=file://" + from}}.Run(t.Context(), "sh", filepath.Join(from, scriptFile), to)
	require.NoError(t, err)
	require.Contains(t, out, "installed "+to+"/rouse: rouse v0.1.0")
}

func TestScriptRejectsAnArchiveWithAnotherChecksum(t *testing.T) {
	t.Parallel()
	from, to := released(t, strings.Repeat("0", 64)), t.TempDir()
	_, err := program{Env: []string{"ROUSE_RELEASE=file://" + from}}.Run(t.Context(), "sh", filepath.Join(from, scriptFile), to)
	require.ErrorContains(t, err, "is not what was released")
	require.NoFileExists(t, filepath.Join(to, "rouse"))
}

func TestScriptReportsAReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	from := released(t, "")
	_, err := program{}.Run(t.Context(), "sh", filepath.Join(from, scriptFile), filepath.Join(from, "none"))
	require.ErrorContains(t, err, "name another one")
}

func TestPackageManagersGetEachArchiveWithItsChecksum(t *testing.T) {
	t.Parallel()
	dir := released(t, strings.Repeat("1", 64))
	text, err := os.ReadFile(filepath.Join(dir, krewFile))
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
	require.Equal(t, projectURL+"/releases/download/v0.1.0/other.tar.gz", manifest.Spec.Platforms[1].URI)

	formula, err := os.ReadFile(filepath.Join(dir, homebrewFile))
	require.NoError(t, err)
	require.Contains(t, string(formula), `sha256 "`+strings.Repeat("1", 64)+`"`)
}

func TestAllCRDsOfTheChartAreInOneFile(t *testing.T) {
	t.Parallel()
	chart := filepath.Join("..", "..", "charts", "rouse")
	crds, err := filepath.Glob(filepath.Join(chart, "files", "crds", "*.yaml"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "crds.yaml")
	require.NoError(t, writeCRDs(chart, file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	documents := strings.Split("\n"+string(text), "\n---\n")[1:]
	require.Len(t, documents, len(crds))
	for _, each := range documents {
		require.Contains(t, each, "\nkind: CustomResourceDefinition\n")
	}
}

// written returns the single file of a release, and the objects in it.
func written(t *testing.T) (text string, objects []map[string]any) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rouse")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "charts", "rouse"))))
	release := release{Version: "v1.2.3", Registry: "registry.example.com/functions"}
	digest := "sha256:" + strings.Repeat("ab", 32)
	require.NoError(t, pinChart(dir, release, imageDigests{"rouse": digest, "rouse-runtime-nodejs22": digest}, nil))
	file := filepath.Join(t.TempDir(), manifestFile)
	require.NoError(t, writeManifest(dir, file, release))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return string(content), objects
		}
		require.NoError(t, err)
		objects = append(objects, object)
	}
}

func TestSingleFileInstallsEverythingAndIsReproducible(t *testing.T) {
	t.Parallel()
	text, objects := written(t)
	kinds := map[string]int{}
	for _, object := range objects {
		kind, _ := object["kind"].(string)
		require.NotEmpty(t, kind)
		kinds[kind]++
	}
	require.Equal(t, "Namespace", objects[0]["kind"])
	require.Zero(t, kinds["Secret"])
	require.Equal(t, 1, kinds["Job"], "the one that makes credentials, and no hook")
	require.NotContains(t, text, "helm.sh/hook")
	require.NotContains(t, text, "managed-by: Helm")
	require.Equal(t, 4, kinds["CustomResourceDefinition"])
	require.GreaterOrEqual(t, kinds["Deployment"], 4)

	again, _ := written(t)
	require.Equal(t, text, again)
}

func TestImagesHaveDigestsAndRuntimesWithoutImagesAreRemoved(t *testing.T) {
	t.Parallel()
	text, _ := written(t)
	digest := "@sha256:" + strings.Repeat("ab", 32)
	require.Contains(t, text, "image: registry.example.com/functions/rouse:1.2.3"+digest+"\n")
	require.Contains(t, text, "--runtime-image=nodejs22=registry.example.com/functions/rouse-runtime-nodejs22:1.2.3"+digest)
	require.NotContains(t, text, "--runtime-image=nodejs24=")
}
