package transcript

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACheckoutHasWhatACloneHas(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, name := range []string{"Makefile", "a/run.sh", ".golangci.yml", ".git/config", "bin/rouse", "a/node_modules/b/index.js", "a/.venv/c"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(name), 0o700))
	}
	require.NoError(t, Checkout(from, to))
	for _, name := range []string{"Makefile", "a/run.sh", ".golangci.yml"} {
		text, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, name, string(text))
	}
	for _, name := range []string{".git", "bin", "a/node_modules", "a/.venv"} {
		require.NoDirExists(t, filepath.Join(to, name))
	}
	info, err := os.Stat(filepath.Join(to, "a/run.sh"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&0o100, "what can be run stays so")
}

func TestAPageHasAStateOfItsOwn(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/mine")
	t.Setenv("KUBECONFIG", "/mine/too")
	t.Setenv("OTHER", "stays")
	env := Environment("/fresh")
	require.Contains(t, env, "XDG_STATE_HOME=/fresh")
	require.Contains(t, env, "OTHER=stays")
	require.NotContains(t, env, "XDG_STATE_HOME=/mine")
	require.NotContains(t, env, "KUBECONFIG=/mine/too")
}
