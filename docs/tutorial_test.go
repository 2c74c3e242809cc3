package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/transcript"
)

// cluster marks the commands that need one; the end-to-end tests run those.
const cluster = "cluster"

// Every command of the tutorial that needs no cluster, in a copy of this repository.
func TestTheCommandsOfTheTutorial(t *testing.T) {
	t.Parallel()
	play(t, "tutorial.md")
}

// The symptoms that local mode can have are seen and mended as the page says.
func TestTheCommandsOfTheTroubleshootingPage(t *testing.T) {
	t.Parallel()
	play(t, "troubleshooting.md")
}

// play runs the steps of a page that need no cluster, in a copy of this repository.
func play(t *testing.T, name string) {
	t.Helper()
	for _, program := range []string{"bash", "make", "node", "npm", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the commands of %s need %s", name, program)
		}
	}
	page, err := os.ReadFile(name)
	require.NoError(t, err)
	steps, err := transcript.Parse(string(page), cluster)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(steps, func(s transcript.Step) bool { return s.Tagged(cluster) }))
	steps = slices.DeleteFunc(steps, func(s transcript.Step) bool { return s.Tagged(cluster) })
	require.Greater(t, len(steps), 20, "most of %s needs no cluster", name)
	root := filepath.Join(t.TempDir(), "rouse")
	require.NoError(t, transcript.Checkout("..", root))
	require.NoError(t, transcript.Play(t.Context(), steps, transcript.Options{
		Name: "docs/" + name, Dir: root, Env: transcript.Environment(t.TempDir()), Timeout: 8 * time.Minute,
		Progress: func(s transcript.Step) { t.Logf("docs/%s:%d", name, s.Line) },
	}))
}
