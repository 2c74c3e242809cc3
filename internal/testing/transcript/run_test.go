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

// play runs a page in a folder of its own, which it returns.
func play(t *testing.T, text string, timeout time.Duration) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	steps, err := Parse(page(text))
	require.NoError(t, err)
	return dir, Play(t.Context(), steps, Options{Name: "page.md", Dir: dir, Env: os.Environ(), Timeout: timeout})
}

// long is more than any step takes, on any machine.
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
		"commands that are none": {"'''sh\n{ (\n'''\n", []string{"page.md:1: it failed", "syntax error"}},
		"success":                {"'''sh fails\ntrue\n'''\n", []string{"page.md:1: it was to fail, and did not"}},
		"a background that ends": {
			"'''sh background\necho hm\n'''\n'''output background\nready\n'''\n",
			[]string{`page.md:4: the command in the background did not print "ready" (ended: true)`, "hm"},
		},
		"an interrupt of nothing": {"<!-- interrupt -->\n", []string{"page.md:1: nothing runs in the background"}},
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

func TestNothingRunsAfterABlockThatFails(t *testing.T) {
	t.Parallel()
	dir, err := play(t, "'''sh\nfalse\n'''\n'''sh\ntouch later\n'''\n", long)
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "later"))
}

func TestACommandThatHasToFailMayPrintWhy(t *testing.T) {
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
		"with a command that hangs":     {"'''sh\nsleep 1000\n'''\n", "it failed"},
		"with an output that never is":  {"'''sh await\necho a\n'''\n'''output\nb\n'''\n", "--- commands\necho a\n"},
		"with a background that is mum": {"'''sh background\nsleep 1000\n'''\n'''output background\nup\n'''\n", `did not print "up" (ended: false)`},
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

// gone reports whether there is no process with the id, or nothing more of it than its name.
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
