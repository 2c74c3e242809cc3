package cli

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func TestInitIsACommandOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := run(t, "", "init", "hello", "--directory", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, "rouse dev "+filepath.Join(dir, "hello"))
	require.FileExists(t, filepath.Join(dir, "hello", "handler.js"))

	got = run(t, "", "init", "hello", "--directory", dir)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, "it exists; nothing was written: take another name or --directory")

	got = run(t, "", "init", "Bad_Name", "--directory", dir)
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, `"Bad_Name" cannot be the name of a Function`)
}

// completed returns the completions that a shell gets.
func completed(got ran) []string {
	words, _, _ := strings.Cut(got.out, ":4\n") // 4: no names of files
	return strings.Fields(words)
}

func TestShellCompletesNamesOfExistingObjects(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	for line, want := range map[string][]string{
		"logs ":                            {"broken", "pricing"},
		"logs pr":                          {"pricing"},
		"logs orders/":                     {"orders/broken", "orders/pricing"},
		"logs -n nowhere ":                 nil,
		"logs pricing p":                   {"pricing"},
		"describe ":                        {"function"},
		"describe function p":              {"pricing"},
		"invoke p":                         {"pricing"},
		"invoke pricing --event order.r":   {"order.received"},
		"functions -n ":                    {"mail", "orders"},
		"publish --type ":                  {"order.invoiced", "order.received"},
		"publish --source shop --type ":    {"order.received"},
		"publish --type order.r --source ": nil,
		"publish --type order.received --source ": {"shop"},
		"events tail --type order.i":              {"order.invoiced"},
		"events tail --source ":                   {"invoicing", "shop"},
		"events tail --subscription ":             {"pricing", "thanks"},
		"events tail --function orders/p":         {"orders/pricing"},
		"dlq list --subscription ":                {"mail/thanks", "orders/pricing"},
		"dlq redrive -n mail --subscription ":     {"thanks"},
		"dlq purge --subscription mail/":          {"mail/thanks"},
	} {
		args := strings.Split("__complete --dir "+w.directory+" "+line, " ")
		verb := args[3:]
		args = append(append([]string{"__complete"}, verb[:len(verb)-1]...), "--dir", w.directory, verb[len(verb)-1])
		if flag := verb[max(0, len(verb)-2)]; strings.HasPrefix(flag, "-") { // the value of the flag is completed
			args = append(append([]string{"__complete"}, verb[:len(verb)-2]...), "--dir", w.directory, flag, verb[len(verb)-1])
		}
		require.ElementsMatch(t, want, completed(run(t, "", args...)), line)
	}
}

func TestCompletionWithoutATargetIsEmptyAndSilent(t *testing.T) {
	t.Parallel()
	hanging := &fixture{directory: t.TempDir()}
	hanging.instance.Control = serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	hanging.announce(t)
	for _, args := range [][]string{
		{"--dir", "/does/not/exist"},
		{"--context", "nowhere"},
		{"--dir", hanging.directory},
	} {
		began := time.Now()
		got := run(t, "", append(append([]string{"__complete", "logs"}, args...), "")...)
		require.Empty(t, completed(got), args)
		require.NotContains(t, got.err, "rouse:", args)
		require.Less(t, time.Since(began), testTimeout/2, args)
	}
}

func TestCompletionLeavesOutShellMetacharacters(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "-n", "a b", "$(id)", "`id`", "a;b", "a\tb", "ä"} {
		require.False(t, harmless(word), word)
	}
	require.True(t, harmless("sap.kyma/order_1-v1"))
}
