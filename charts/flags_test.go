package charts

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// binaries builds every command once, as the image has it, and returns their folder.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rouse-binaries-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "./cmd/...")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)), os.RemoveAll(dir))
	}
	return dir, nil
})

func TestEveryBinaryKnowsTheFlagsThatTheChartGivesIt(t *testing.T) {
	t.Parallel()
	dir, err := binaries()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, all := range renderedInstallations(t) {
		for _, deployment := range of[*appsv1.Deployment](all) {
			container := deployment.Spec.Template.Spec.Containers[0]
			require.Len(t, container.Command, 1)
			// Flags are read in order, so --help is reached only when those before it are known and their values parse.
			args := append(slices.Clone(container.Args), "--help")
			out, err := exec.CommandContext(ctx, filepath.Join(dir, container.Command[0]), args...).CombinedOutput()
			require.NoError(t, err, "%s, %s: %s", name, deployment.Name, out)
		}
	}
}
