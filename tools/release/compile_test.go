package main

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
)

func TestMachineOfAProgramIsReadFromItsHeader(t *testing.T) {
	t.Parallel()
	for _, platform := range commandPlatforms() {
		source, out := newSources(t), t.TempDir()
		require.NoError(t, compiler{Source: source}.Command(t.Context(), platform, out))
		header, err := os.ReadFile(filepath.Join(out, "rouse"))
		require.NoError(t, err)
		machine, err := machineOf(header[:headerSize])
		require.NoError(t, err)
		require.Equal(t, platform.OS+"/"+platform.Architecture, machine)
	}
	_, err := machineOf([]byte("#!/bin/sh\necho a script that is longer than the header of a program is"))
	require.ErrorContains(t, err, "not a program for a platform of the release")
}

func TestServersAreAllCommandsExceptTheCommandLine(t *testing.T) {
	t.Parallel()
	names, err := compiler{Source: newSources(t)}.Servers(t.Context(), v1.Platform{OS: "linux", Architecture: "arm64"}, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, []string{"bridge", "scaler"}, names)
}

// newSources writes a module with three commands.
func newSources(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/functions\n\ngo 1.26\n"), 0o600))
	for _, name := range []string{"rouse", "scaler", "bridge"} {
		folder := filepath.Join(dir, "cmd", name)
		require.NoError(t, os.MkdirAll(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	}
	return dir
}
