package process

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnLinuxTheKernelKillsTheProgramWithoutAKeeper(t *testing.T) {
	t.Parallel()
	life := listen(t)
	parent := startParent(t, life)
	callers := life.family(t)
	keeper, err := strconv.Atoi(strings.TrimPrefix(callers["supervisor"].name, "keeper is "))
	require.NoError(t, err)
	for _, pid := range []int{keeper, parent.Process.Pid} {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	callers["tree 3"].requireGone(t)
	// No process kills the program's children.
	for _, name := range []string{"tree 2", "tree 1", "guarded"} {
		require.NoError(t, syscall.Kill(callers[name].pid, syscall.SIGKILL))
	}
}
