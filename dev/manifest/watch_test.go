package manifest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slow is a timeout for busy machines.
const slow = time.Minute

// watchedFolder starts to watch a folder, and returns a function that waits for a report of changes.
func watchedFolder(t *testing.T, dir string) (await func(what string)) {
	t.Helper()
	signalled := make(chan struct{}, 1)
	w, err := newWatch(dir, func() {
		select {
		case signalled <- struct{}{}:
		default:
		}
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return func(what string) {
		t.Helper()
		select {
		case <-signalled:
		case <-time.After(slow):
			require.Fail(t, "no change was reported", what)
		}
	}
}

func TestWatchReportsChanges(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"a.yaml": "a", "deep/b.yaml": "b"})
	await := watchedFolder(t, dir)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "deep", "b.yaml"), []byte("c"), 0o600))
	await("a file below a folder")

	other := filepath.Join(dir, ".a.yaml.new")
	require.NoError(t, os.WriteFile(other, []byte("c"), 0o600))
	require.NoError(t, os.Rename(other, filepath.Join(dir, "a.yaml")))
	await("a file that an editor puts in place of another")

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "new", "er"), 0o700))
	await("a new folder")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new", "er", "c.yaml"), []byte("c"), 0o600))
	await("a file in the new folder")

	require.NoError(t, os.WriteFile(filepath.Join(dir, ignoreFile), []byte("new/"), 0o600))
	await("which files are left out")
	require.NoError(t, os.WriteFile(filepath.Join(dir, envFile), []byte("A=b"), 0o600))
	await("a variable")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "deep")))
	await("a folder that was removed")
}

func TestWatchFollowsAFolderThatVanishes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shop")
	require.NoError(t, os.Mkdir(dir, 0o700))
	await := watchedFolder(t, dir)

	require.NoError(t, os.Remove(dir))
	await("that it vanished")
	require.NoError(t, os.Mkdir(dir, 0o700))
	await("that it is back")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("c"), 0o600))
	await("a file in it")
}

func TestWatchNeedsAFolder(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Watch(t.Context(), filepath.Join(t.TempDir(), "missing"), func() {}), "missing")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, Watch(ctx, t.TempDir(), func() {}))
}
