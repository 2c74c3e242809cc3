package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy serves the last commit as a version of the module, like a module proxy.
func proxy(t *testing.T, version module.Version) string {
	t.Helper()
	root := filepath.Join("..", "..")
	dir := t.TempDir()
	files := filepath.Join(dir, version.Path, "@v")
	require.NoError(t, os.MkdirAll(files, 0o755))
	archive, err := os.Create(filepath.Join(files, version.Version+".zip"))
	require.NoError(t, err)
	require.NoError(t, zip.CreateFromVCS(archive, version, root, "HEAD", ""))
	require.NoError(t, archive.Close())
	info, err := json.Marshal(map[string]any{"Version": version.Version, "Time": time.Unix(0, 0).UTC()})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(files, version.Version+".info"), info, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(files, "list"), []byte(version.Version+"\n"), 0o600))
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(files, version.Version+".mod"), text, 0o600))
	return "file://" + dir
}

func TestCommandLineIsInstalledByGoInstall(t *testing.T) {
	t.Parallel()
	version := module.Version{Path: "github.com/rouse-run/rouse", Version: "v0.1.0-test"}
	printed, err := program{}.Run(t.Context(), "go", "env", "GOPROXY", "GOMODCACHE")
	require.NoError(t, err)
	settings := strings.Fields(printed)
	out := t.TempDir()
	// A separate module cache, since a made-up version must not remain in this machine's. Modules of the latter need
	// not be downloaded.
	_, err = program{Dir: out, Env: []string{
		"GOMODCACHE=" + filepath.Join(t.TempDir(), "modules"), "GOFLAGS=-modcacherw -trimpath -buildvcs=false", "GOBIN=" + out, "CGO_ENABLED=0",
		"GOPROXY=" + proxy(t, version) + ",file://" + filepath.Join(settings[1], "cache", "download") + "," + settings[0],
		"GONOSUMDB=" + version.Path, "GOWORK=off",
	}}.Run(t.Context(), "go", "install", version.Path+"/cmd/rouse@"+version.Version)
	require.NoError(t, err)
	said, err := program{}.Run(t.Context(), filepath.Join(out, "rouse"), "version")
	require.NoError(t, err)
	require.Contains(t, said, version.Version)
}
