package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/daemon"
)

func TestUnknownCommandIsAUsageErrorWithASuggestion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a misspelt command": {[]string{"versio"}, `there is no command "versio"; did you mean version?`},
		"an unknown flag":    {[]string{"version", "--nope"}, "unknown flag: --nope; see rouse version --help"},
	} {
		got := run(t, "", tc.args...)
		require.Equal(t, 2, got.code, name)
		require.Contains(t, got.err, tc.want, name)
		require.Empty(t, got.out, name)
	}
}

func TestTheVersionIsAFlagAsWellAsACommand(t *testing.T) {
	t.Parallel()
	command := run(t, "", "version")
	require.Regexp(t, `^rouse \S+ \(commit \S+ of \S+, go\S+, \w+/\w+\)\n$`, command.out)
	require.Equal(t, command, run(t, "", "--version"))
}

func TestProgramsReadTheVersionAsJSON(t *testing.T) {
	t.Parallel()
	var build daemon.Build
	require.NoError(t, json.Unmarshal([]byte(run(t, "", "version", "-o", "json").out), &build))
	require.Equal(t, daemon.ThisBuild(), build)
}

func TestHelpExplainsExitCodes(t *testing.T) {
	t.Parallel()
	got := run(t, "", "help", "exit-codes")
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, "5  refused")
}

func TestCompletionIsWrittenForEachShell(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := run(t, "", "completion", shell)
		require.Equal(t, 0, got.code, got.err)
		require.Contains(t, got.out, "rouse", shell)
	}
}
