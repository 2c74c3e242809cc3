package cli

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

func TestADeadLetterIsEditedAndRedriven(t *testing.T) {
	w, repaired := refusing(t, 2)
	repaired.Store(true)
	t.Setenv("VISUAL", "sed -i s/1.50/2.50/")
	got := w.run(t, "dlq", "redrive", "1", "--edit")
	require.Zero(t, got.code, got.err)
	require.Contains(t, got.out, "Subscription orders/pricing of the local mode of "+w.directory+": redriven 1, failed 0, remaining 1\n")
	requests := w.pricing.Await(t, 3)
	require.JSONEq(t, `{"n": 2.5}`, string(requests[2].Body))
	require.Equal(t, "0", requests[2].ID())

	got = w.run(t, "dlq", "redrive", "2", "--data", `{"n": 3}`)
	require.Zero(t, got.code, got.err)
	require.JSONEq(t, `{"n": 3}`, string(w.pricing.Await(t, 4)[3].Body))
	w.awaitDeadLetters(t, 0)
}

func TestAnEditThatIsNoneLeavesTheDeadLetter(t *testing.T) {
	w, _ := refusing(t, 1)
	for name, tc := range map[string]struct {
		editor string
		args   []string
		code   exit.Code
		want   string
	}{
		"nothing changed":           {"true", []string{"1", "--edit"}, exit.Failed, "nothing was changed"},
		"an editor that fails":      {"false", []string{"1", "--edit"}, exit.Failed, "the editor false ended with an error"},
		"no JSON":                   {"sed -i s/}//", []string{"1", "--edit"}, exit.Failed, "the edited data are malformed JSON, and nothing was done: correct "},
		"data that are no JSON":     {"true", []string{"1", "--data", "{"}, exit.Usage, "--data: the data are malformed JSON"},
		"two dead letters":          {"true", []string{"1", "2", "--edit"}, exit.Usage, "--edit and --data are for one dead letter"},
		"all":                       {"true", []string{"--all", "--edit"}, exit.Usage, "--edit and --data are for one dead letter"},
		"a dead letter that is not": {"true", []string{"9", "--edit"}, exit.NotFound, "there is no dead letter 9"},
	} {
		t.Setenv("VISUAL", tc.editor)
		got := w.run(t, append([]string{"dlq", "redrive"}, tc.args...)...)
		require.Equal(t, int(tc.code), got.code, "%s: %s", name, got.err)
		require.Contains(t, got.err, tc.want, name)
		if kept := regexp.MustCompile(`@(\S+)`).FindStringSubmatch(got.err); kept != nil {
			require.NoError(t, os.Remove(kept[1]), "the edited text is kept")
		}
		w.awaitDeadLetters(t, 1)
	}
}
