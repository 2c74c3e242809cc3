package envtest_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

func TestAScriptRunsAtOnceWhileOtherProcessesStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var starters sync.WaitGroup
	defer starters.Wait()
	for starter := range 4 {
		starters.Go(func() {
			for n := range 50 {
				script := filepath.Join(dir, fmt.Sprintf("%d-%d", starter, n))
				if err := envtest.Script(script, "echo it runs"); err != nil {
					t.Errorf("write %s: %v", script, err)
					return
				}
				if out, err := exec.CommandContext(t.Context(), script).CombinedOutput(); err != nil || string(out) != "it runs\n" {
					t.Errorf("run %s: %v: %s", script, err, out)
					return
				}
			}
		})
	}
}

func TestWhatCannotBeWrittenIsSaid(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, envtest.Script(filepath.Join(t.TempDir(), "nowhere", "script"), ""), "nowhere")
}
