package toolchain

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// The tests of local mode run with the machine's programs, so these stand-ins only answer the question that finds them.
func TestARuntimePrefersTheInterpreterOfItsOwnVersion(t *testing.T) {
	python, err := languages.Of("python312")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		versioned string // what python3.12 does
		want      string
	}{
		"it is there":                         {`echo '["/opt/python3.12", "3.12.4", "x"]'`, "/opt/python3.12"},
		"it is none":                          {"", "/usr/bin/python3"},
		"a version manager has only its name": {"echo not installed >&2; exit 127", "/usr/bin/python3"},
		"it has no pip":                       {`case "$*" in *"import pip"*) exit 1;; esac; echo '["/opt/python3.12", "3.12.4", "x"]'`, "/usr/bin/python3"},
		"it is another version":               {`echo '["/opt/python3.12", "3.14.1", "x"]'`, "/usr/bin/python3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program := func(name, text string) {
				require.NoError(t, envtest.Script(filepath.Join(dir, name), text))
			}
			program("python3", `echo '["/usr/bin/python3", "3.11.2", "x"]'`)
			if tc.versioned != "" {
				program("python3.12", tc.versioned)
			}
			t.Setenv("PATH", dir)
			found, err := find(t.Context(), python, "python312", "")
			require.NoError(t, err)
			require.Equal(t, tc.want, found.path)
		})
	}
}

func TestAnInterpreterThatIsNamedIsTakenForEveryRuntime(t *testing.T) {
	t.Parallel()
	python, err := languages.Of("python314")
	require.NoError(t, err)
	named := filepath.Join(t.TempDir(), "python")
	require.NoError(t, envtest.Script(named, `echo '["/named/python", "3.11.9", "x"]'`))
	found, err := find(t.Context(), python, "python314", named)
	require.NoError(t, err)
	require.Equal(t, "/named/python", found.path)
}
