package charts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binaries builds every command of the image once, and returns their folder, which TestMain removes.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rouse-binaries-")
	if err != nil {
		return "", err
	}
	builtInto = dir
	commands, err := filepath.Glob("../cmd/*")
	if err != nil {
		return "", err
	}
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir + "/"}
	for _, command := range commands {
		if name := filepath.Base(command); name != "rouse" { // linking it takes as long as all others together
			args = append(args, "./cmd/"+name)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binaries of the image: %w: %s", err, out)
	}
	return dir, nil
})

// builtInto is the folder of the binaries, empty until a test has built them.
var builtInto string

func TestBinariesSupportTheFlagsOfTheChart(t *testing.T) {
	t.Parallel()
	dir, err := binaries()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, all := range renderedInstallations(t) {
		for _, w := range workloads(all) {
			if w.component() == "nats" {
				continue // not our binary
			}
			container := w.Pod.Spec.Containers[0]
			// Flags are parsed in order, so --help is reached only if the preceding flags are known and their values
			// parse.
			args := slices.Concat(container.Command[1:], container.Args, []string{"--help"})
			out, err := exec.CommandContext(ctx, filepath.Join(dir, container.Command[0]), args...).CombinedOutput()
			require.NoError(t, err, "%s, %s: %s", name, w.GetName(), out)
		}
	}
}
