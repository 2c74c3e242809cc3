package transcript

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// page writes blocks with ”' where Markdown has backticks.
func page(text string) string { return strings.ReplaceAll(text, "'''", "```") }

func TestAPageIsReadIntoItsSteps(t *testing.T) {
	t.Parallel()
	steps, err := Parse(page(`# Title

'''sh
echo one
echo two
'''

It says:

'''output
one

  two
'''

'''yaml
not: a command
'''
  '''sh background
  serve
  '''
'''output background
listening
'''
<!-- interrupt -->
'''sh await cluster
get pods
'''
'''
no language
'''
'''sh fails
false
'''
`), "cluster")
	require.NoError(t, err)
	require.Equal(t, []Step{
		{Kind: Run, Line: 3, Script: "echo one\necho two\n", Want: []string{"one", "two"}},
		{Kind: Start, Line: 19, Script: "  serve\n"},
		{Kind: Follow, Line: 22, Want: []string{"listening"}},
		{Kind: Interrupt, Line: 25},
		{Kind: Run, Line: 26, Script: "get pods\n", Await: true, Tags: []string{"cluster"}},
		{Kind: Run, Line: 32, Script: "false\n", Fails: true},
	}, steps)
	require.True(t, steps[4].Tagged("cluster"))
	require.False(t, steps[5].Tagged("cluster"))
}

func TestAPageThatMakesNoSenseIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ page, want string }{
		"an unknown word":           {"\n'''sh foreground\nx\n'''\n", `line 2: "foreground" is no word`},
		"a block without end":       {"'''sh\nx\n", "line 1: the block does not end"},
		"output of nothing":         {"'''output\nx\n'''\n", "line 1: no commands stand before this output"},
		"output twice":              {"'''sh\nx\n'''\n'''output\na\n'''\n'''output\nb\n'''\n", "line 7: no commands"},
		"output of a background":    {"'''sh\nx\n'''\n'''output background\na\n'''\n", "line 4: nothing runs in the background"},
		"an unknown word of output": {"'''sh\nx\n'''\n'''output later\na\n'''\n", `line 4: "later" is no word`},
		"an awaited background":     {"'''sh background await\nx\n'''\n", "line 1: a command in the background"},
	} {
		_, err := Parse(page(tc.page))
		require.ErrorContains(t, err, tc.want, name)
	}
}

func TestOutputIsComparedLineByLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		output string
		want   []string
		line   string
	}{
		"all lines":                   {"a\nb\nc\n", []string{"a", "c"}, ""},
		"no lines wanted":             {"a\n", nil, ""},
		"another order":               {"a\nb\n", []string{"b", "a"}, "a"},
		"one line for two":            {"a\n", []string{"a", "a"}, "a"},
		"a part of a line":            {"the answer is 42.\n", []string{"answer is 42"}, ""},
		"another number":              {"the answer is 43\n", []string{"answer is 42"}, "answer is 42"},
		"white space":                 {"NAME    AGE\n", []string{"NAME  AGE"}, ""},
		"colours":                     {"\x1b[32mok\x1b[0m done\n", []string{"ok done"}, ""},
		"anything between":            {"from 1 to 9 of it\n", []string{"from ... of it"}, ""},
		"another time":                {"at 12:13:14.567 it came\n", []string{"at 01:02:03.004 it came"}, ""},
		"a time that is none":         {"at noon it came\n", []string{"at 01:02:03.004 it came"}, "at 01:02:03.004 it came"},
		"another date":                {"2026-01-02T03:04:05.6Z\n", []string{"2025-11-12T13:14:15Z"}, ""},
		"another duration":            {"took 12 ms, 1.5s and 1m30s\n", []string{"took 7 ms, 2s and 10m2s"}, ""},
		"another id":                  {"0af7651916cd43dd8448eb211c80319c\n", []string{"4bf92f3577b34da6a3ce929d0e0e4736"}, ""},
		"another port":                {"http://127.0.0.1:8081/\n", []string{"http://127.0.0.1:8080/"}, ""},
		"characters of an expression": {"a+b (c)*\n", []string{"a+b (c)*"}, ""},
	} {
		line, _ := missing(tc.output, tc.want)
		require.Equal(t, tc.line, line, name)
	}
}
