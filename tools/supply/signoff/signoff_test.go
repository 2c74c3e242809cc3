package main

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository has one commit for each message on top of a first one without a sign-off.
func repository(t *testing.T, messages ...string) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		all := append([]string{"-C", dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"}, args...)
		printed, err := exec.CommandContext(t.Context(), "git", all...).CombinedOutput()
		require.NoError(t, err, string(printed))
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "Begin")
	git("branch", "base")
	for _, message := range messages {
		git("commit", "-q", "--allow-empty", "-m", message)
	}
	return dir
}

func TestCommitsWithoutTheirAuthorsSignOffAreNamed(t *testing.T) {
	t.Parallel()
	const signed = "Signed-off-by: Ada <ada@example.com>"
	for name, tc := range map[string]struct {
		messages []string
		want     string // empty: it passes
	}{
		"none":                        {},
		"signed off":                  {messages: []string{"Add it\n\nBecause.\n\n" + signed, "Mend it\n\n" + signed}},
		"among other lines":           {messages: []string{"Add it\n\nReviewed-by: Bob <bob@example.com>\n" + signed}},
		"in another case":             {messages: []string{"Add it\n\nSigned-off-by: Ada <Ada@Example.com>"}},
		"not signed off":              {messages: []string{"Add it\n\n" + signed, "Forget it"}, want: "(Forget it) has no line"},
		"by somebody else":            {messages: []string{"Add it\n\nSigned-off-by: Bob <bob@example.com>"}, want: "of its author <ada@example.com>"},
		"in the text, not at the end": {messages: []string{"Add it\n\n" + signed + "\n\nand more"}, want: "(Add it) has no line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, messages bytes.Buffer
			code := run(t.Context(), []string{"-C", repository(t, tc.messages...), "base..main"}, &out, &messages)
			require.Contains(t, messages.String(), tc.want)
			require.Equal(t, tc.want == "", code == 0, messages.String())
		})
	}
}

func TestAMergeNeedsNoSignOff(t *testing.T) {
	t.Parallel()
	require.NoError(t, judge([]commit{{id: "1", author: "ada@example.com", merge: true}}))
	require.Error(t, judge([]commit{{id: "1", author: "ada@example.com"}}))
}

func TestARangeThatGitDoesNotKnowIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"nowhere..main"}, {"--output=/tmp/x"}, {}, {"a", "b"}} {
		var out, messages bytes.Buffer
		require.NotZero(t, run(t.Context(), append([]string{"-C", repository(t)}, args...), &out, &messages), args)
		require.Empty(t, out.String())
	}
}
