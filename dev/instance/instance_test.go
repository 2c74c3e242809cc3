package instance

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func claim(t *testing.T, root, directory string) *Claim {
	t.Helper()
	c, err := Acquire(t.Context(), root, directory)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Release() })
	return c
}

func TestARunningInstanceIsFoundFromItsFolderAndBelow(t *testing.T) {
	t.Parallel()
	root, directory := t.TempDir(), t.TempDir()
	below := filepath.Join(directory, "a", "b")
	require.NoError(t, os.MkdirAll(below, 0o750))
	c := claim(t, root, directory)
	_, err := Find(root, directory)
	require.ErrorIs(t, err, ErrNone, "it is not announced before it is up")
	require.NoError(t, c.Announce(Instance{Started: time.Now(), Publish: "http://127.0.0.1:8080/publish", Token: "t"}))

	info, err := os.Stat(filepath.Join(c.Folder(), file))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "only the owner reads the token")

	for _, from := range []string{directory, below, t.TempDir()} {
		found, err := Find(root, from)
		require.NoError(t, err)
		require.Equal(t, "http://127.0.0.1:8080/publish", found.Publish)
		require.Equal(t, c.Directory(), found.Directory)
		require.Equal(t, os.Getpid(), found.PID)
	}
	require.NoError(t, c.Release())
	_, err = Find(root, directory)
	require.ErrorIs(t, err, ErrNone)
}

func TestTheNearestOfSeveralIsFound(t *testing.T) {
	t.Parallel()
	root, outer, other := t.TempDir(), t.TempDir(), t.TempDir()
	inner := filepath.Join(outer, "inner")
	require.NoError(t, os.MkdirAll(filepath.Join(inner, "deep"), 0o750))
	for _, directory := range []string{outer, inner, other} {
		require.NoError(t, claim(t, root, directory).Announce(Instance{}))
	}
	found, err := Find(root, filepath.Join(inner, "deep"))
	require.NoError(t, err)
	require.Equal(t, "inner", filepath.Base(found.Directory))

	_, err = Find(root, t.TempDir())
	require.ErrorIs(t, err, ErrAmbiguous)
	require.ErrorContains(t, err, other)
}

func TestAFolderThatIsNamedMeansNoOtherInstance(t *testing.T) {
	t.Parallel()
	root, directory, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	below := filepath.Join(directory, "below")
	require.NoError(t, os.Mkdir(below, 0o750))
	c := claim(t, root, directory)
	require.NoError(t, c.Announce(Instance{}))
	for _, served := range []string{directory, below} {
		found, err := Serving(root, served)
		require.NoError(t, err)
		require.Equal(t, c.Directory(), found.Directory)
	}
	_, err := Serving(root, elsewhere)
	require.ErrorIs(t, err, ErrElsewhere)
	require.ErrorContains(t, err, "start it with rouse dev "+elsewhere+"; local modes run in "+c.Directory())
}

func TestSecondClaimOfAFolderIsRefusedWithThePID(t *testing.T) {
	t.Parallel()
	root, directory := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(directory, link))
	first := claim(t, root, directory)

	_, err := Acquire(t.Context(), root, link)
	var running *RunningError
	require.ErrorAs(t, err, &running)
	require.Equal(t, os.Getpid(), running.PID)
	require.ErrorContains(t, err, "kill")

	require.NoError(t, first.Release())
	claim(t, root, directory)
}

func TestInstanceFileOfAKilledProcessIsIgnored(t *testing.T) {
	t.Parallel()
	root, directory := t.TempDir(), t.TempDir()
	c := claim(t, root, directory)
	require.NoError(t, c.Announce(Instance{}))
	require.NoError(t, c.lock.Close()) // like the kernel
	_, err := Find(root, directory)
	require.ErrorIs(t, err, ErrNone)

	claim(t, root, directory)
	_, err = Find(root, directory)
	require.ErrorIs(t, err, ErrNone, "the next instance has not announced itself yet")
}

func TestEmptyLeavesOnlyTheLock(t *testing.T) {
	t.Parallel()
	c := claim(t, t.TempDir(), t.TempDir())
	require.NoError(t, os.MkdirAll(filepath.Join(c.Folder(), "nats", "x"), 0o750))
	require.NoError(t, c.Empty())
	entries, err := os.ReadDir(c.Folder())
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestMissingFolderIsReported(t *testing.T) {
	t.Parallel()
	_, err := Acquire(t.Context(), t.TempDir(), "no/such/folder")
	require.EqualError(t, err, "folder no/such/folder does not exist")
}
