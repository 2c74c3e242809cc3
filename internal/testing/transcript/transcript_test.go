package transcript

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// play runs a page in a new folder, which it returns.
func play(t *testing.T, text string, timeout time.Duration) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	steps, err := Parse(page(text))
	require.NoError(t, err)
	return dir, Play(t.Context(), steps, Options{Name: "page.md", Dir: dir, Env: os.Environ(), Timeout: timeout})
}

// long exceeds the duration of any step on any machine.
const long = 2 * time.Minute

func TestBlocksShareOneSession(t *testing.T) {
	t.Parallel()
	dir, err := play(t, `
'''sh
export GREETING="hello there"
mkdir inner && cd inner
cat > note <<'EOF'
$GREETING
EOF
'''
'''sh
echo "$GREETING" >&2
cat note
pwd
'''
'''output
hello there
$GREETING
/inner
'''
`, long)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "inner", "note"))
}

func TestFailedBlockIsReportedWithItsOutput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		page string
		want []string
	}{
		"a command that fails": {
			"\n'''sh\necho before\nfalse\necho after\n'''\n",
			[]string{"page.md:2: it failed", "--- commands\necho before\nfalse\n", "--- printed\nbefore\n"},
		},
		"output that is missing": {"'''sh\necho a\n'''\n'''output\nb\n'''\n", []string{`page.md:1: it did not print "b"`, "printed\na\n"}},
		"malformed commands":     {"'''sh\n{ (\n'''\n", []string{"page.md:1: it failed", "syntax error"}},
		"success":                {"'''sh fails\ntrue\n'''\n", []string{"page.md:1: it was to fail, and did not"}},
		"a background that ends": {
			"'''sh background\necho hm\n'''\n'''output background\nready\n'''\n",
			[]string{`page.md:4: the command in the background did not print "ready" (ended: true)`, "hm"},
		},
		"an interrupt of nothing": {"<!-- interrupt -->\n", []string{"page.md:1: no command runs in the background"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := play(t, tc.page, long)
			require.Error(t, err)
			for _, part := range tc.want {
				require.Contains(t, err.Error(), part)
			}
		})
	}
}

func TestNoBlockRunsAfterAFailedOne(t *testing.T) {
	t.Parallel()
	dir, err := play(t, "'''sh\nfalse\n'''\n'''sh\ntouch later\n'''\n", long)
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "later"))
}

func TestCommandThatMustFailMayPrintOutput(t *testing.T) {
	t.Parallel()
	_, err := play(t, "'''sh fails\necho no >&2\nexit 3\n'''\n'''output\nno\n'''\n'''sh\necho on\n'''\n'''output\non\n'''\n", long)
	require.NoError(t, err)
}

func TestAnAwaitedBlockIsRunUntilItPrintsTheOutput(t *testing.T) {
	t.Parallel()
	dir, err := play(t, `
'''sh await
echo . >> runs
[ $(wc -l < runs) -ge 3 ]
cat runs | wc -l
'''
'''output
4
'''
`, long)
	require.NoError(t, err)
	runs, err := os.ReadFile(filepath.Join(dir, "runs"))
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(runs), "\n"), "it needs three runs to succeed, and one more to print what is wanted")
}

func TestStepsTimeOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ page, want string }{
		"with a command that hangs":         {"'''sh\nsleep 1000\n'''\n", "it failed"},
		"with an output that never appears": {"'''sh await\necho a\n'''\n'''output\nb\n'''\n", "--- commands\necho a\n"},
		"with a silent background command":  {"'''sh background\nsleep 1000\n'''\n'''output background\nup\n'''\n", `did not print "up" (ended: false)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := play(t, tc.page, 2*time.Second)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestABackgroundCommandIsFollowedAndInterrupted(t *testing.T) {
	t.Parallel()
	dir, err := play(t, `
'''sh
export WORD=up
mkdir inner; cd inner
'''
'''sh background
trap 'echo bye > ../bye; exit 0' INT
echo "$WORD"
echo "$WORD"
while [ ! -e go ]; do sleep 0.05; done
echo gone
sleep 1000 & wait
'''
'''output
up
'''
'''output background
up
'''
'''sh
touch go
'''
'''output background
gone
'''
<!-- interrupt -->
'''sh
cat ../bye
'''
'''output
bye
'''
`, long)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "bye"))
}

func TestBackgroundOutputIsComparedOnce(t *testing.T) {
	t.Parallel()
	_, err := play(t, "'''sh background\necho up\n'''\n'''output\nup\n'''\n'''output background\nup\n'''\n", long)
	require.ErrorContains(t, err, `page.md:7: the command in the background did not print "up"`)
}

func TestNoProcessOutlivesThePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	steps, err := Parse(page(`
'''sh background
trap '' INT
( trap '' INT; while :; do sleep 0.05; done ) &
echo $! > child
echo $$ > parent
echo up
wait
'''
'''output
up
'''
'''sh
false
'''
`))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	err = Play(ctx, steps, Options{
		Name: "page.md", Dir: dir, Env: os.Environ(), Timeout: long,
		Progress: func(s Step) {
			if s.Script == "false\n" {
				cancel() // the run does not wait for a step that does not end
			}
		},
	})
	require.Error(t, err)
	for _, name := range []string{"child", "parent"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return gone(strings.TrimSpace(string(text))) }, long, 10*time.Millisecond, name)
	}
}

// gone reports whether no process has the id, or only a zombie.
func gone(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestTheEndOfTheTestEndsThePage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	steps, err := Parse(page("'''sh\nsleep 1000\n'''\n"))
	require.NoError(t, err)
	err = Play(ctx, steps, Options{
		Name: "page.md", Dir: t.TempDir(), Env: os.Environ(), Timeout: long, Progress: func(Step) { cancel() },
	})
	require.ErrorContains(t, err, "page.md:1")
}

// page writes blocks with ”' in place of Markdown's backticks.
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

func TestMalformedPageIsRejectedWithTheLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ page, want string }{
		"an unknown word":           {"\n'''sh foreground\nx\n'''\n", `line 2: "foreground" is not a word for a block of commands`},
		"a block without end":       {"'''sh\nx\n", "line 1: the block does not end"},
		"output of nothing":         {"'''output\nx\n'''\n", "line 1: no commands stand before this output"},
		"output twice":              {"'''sh\nx\n'''\n'''output\na\n'''\n'''output\nb\n'''\n", "line 7: no commands"},
		"output of a background":    {"'''sh\nx\n'''\n'''output background\na\n'''\n", "line 4: no command runs in the background"},
		"an unknown word of output": {"'''sh\nx\n'''\n'''output later\na\n'''\n", `line 4: "later" is not a word for output`},
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
		"no time":                     {"at noon it came\n", []string{"at 01:02:03.004 it came"}, "at 01:02:03.004 it came"},
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

func TestCheckoutHasTheFilesOfAClone(t *testing.T) {
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
	require.NotZero(t, info.Mode()&0o100, "executables must stay executable")
}

func TestPageHasASeparateState(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/mine")
	t.Setenv("KUBECONFIG", "/mine/too")
	t.Setenv("OTHER", "stays")
	env := Environment("/fresh")
	require.Contains(t, env, "XDG_STATE_HOME=/fresh")
	require.Contains(t, env, "OTHER=stays")
	require.NotContains(t, env, "XDG_STATE_HOME=/mine")
	require.NotContains(t, env, "KUBECONFIG=/mine/too")
}
