package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

func TestMountsBelowFindsMountsOfTheDirectoryOnly(t *testing.T) {
	t.Parallel()
	const mountinfo = `22 1 0:20 / / rw - ext4 /dev/vda rw
30 22 0:30 / /var/lib/rouse-cluster rw - tmpfs tmpfs rw
31 22 0:31 / /var/lib/rouse-cluster/kubelet/pods/a rw - tmpfs tmpfs rw
32 22 0:32 / /var/lib/rouse-cluster-two rw - tmpfs tmpfs rw
`
	require.Equal(t, []string{"/var/lib/rouse-cluster", "/var/lib/rouse-cluster/kubelet/pods/a"},
		state.MountsBelow(mountinfo, "/var/lib/rouse-cluster"))
	require.Empty(t, state.MountsBelow(mountinfo, "/var/lib/other"))
}

func TestKey(t *testing.T) {
	t.Parallel()
	first, again := state.Key("a", "b"), state.Key("a", "b")
	require.Equal(t, first, again)
	require.NotEqual(t, state.Key("ab", "c"), state.Key("a", "bc"), "a letter that moves to the next part changes the key")
	require.NotEqual(t, state.Key("a", "b"), state.Key("b", "a"))
}

func TestKeyOfFilesCoversNamesAndContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	require.NoError(t, state.Write(one, "x"))
	require.NoError(t, state.Write(two, "x"))
	before, err := state.KeyOfFiles(dir, one)
	require.NoError(t, err)
	renamed, err := state.KeyOfFiles(dir, two)
	require.NoError(t, err)
	require.NotEqual(t, before, renamed)
	require.NoError(t, state.Write(one, "y"))
	changed, err := state.KeyOfFiles(dir, one)
	require.NoError(t, err)
	require.NotEqual(t, before, changed)
}

func TestCacheEntryIsCompleteOrAbsent(t *testing.T) {
	t.Parallel()
	cache := state.Cache(t.TempDir())
	broken := errors.New("no space")

	_, _, err := cache.Entry("layers", "base", "k", func(temporary string) error {
		require.NoError(t, os.WriteFile(temporary, []byte("half"), 0o600))
		return broken
	})
	require.ErrorIs(t, err, broken)
	left, err := os.ReadDir(cache.Path("layers"))
	require.NoError(t, err)
	require.Empty(t, left)

	build := func(temporary string) error { return os.WriteFile(temporary, []byte("whole"), 0o600) }
	path, built, err := cache.Entry("layers", "base", "k", build)
	require.NoError(t, err)
	require.True(t, built)
	again, built, err := cache.Entry("layers", "base", "k", func(string) error { return broken })
	require.NoError(t, err)
	require.False(t, built)
	require.Equal(t, path, again)
}

func TestPruneKeepsTheNewestAndOtherNames(t *testing.T) {
	t.Parallel()
	cache := state.Cache(t.TempDir())
	entries := []string{"rouse-" + state.Key("1"), "rouse-" + state.Key("2"), "rouse-" + state.Key("3"), "rouse-nats-" + state.Key("1")}
	for n, name := range entries {
		require.NoError(t, os.MkdirAll(cache.Path("layers", name), 0o755))
		age := time.Now().Add(time.Duration(n) * time.Second)
		require.NoError(t, os.Chtimes(cache.Path("layers", name), age, age))
	}
	require.NoError(t, cache.Prune("layers", "rouse", 2))
	require.NoDirExists(t, cache.Path("layers", entries[0]))
	for _, name := range entries[1:] {
		require.DirExists(t, cache.Path("layers", name))
	}
}

func TestLockExcludesOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	release, err := state.Lock(path)
	require.NoError(t, err)
	_, err = state.Lock(path)
	require.ErrorIs(t, err, state.ErrLocked)
	release()
	require.NoFileExists(t, path)
	release, err = state.Lock(path)
	require.NoError(t, err)
	release()
}

func TestSavedValuesAreLoaded(t *testing.T) {
	t.Parallel()
	dir := state.Dir(t.TempDir())
	var got map[string]string
	require.ErrorIs(t, dir.Load("versions", &got), fs.ErrNotExist)
	require.NoError(t, dir.Save("versions", map[string]string{"etcd": "1"}))
	require.NoError(t, dir.Load("versions", &got))
	require.Equal(t, map[string]string{"etcd": "1"}, got)
}

func TestKeysAreWrittenForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]fs.FileMode{"a.key": 0o600, "kubeconfig": 0o600, "proxy.kubeconfig": 0o600, "a.crt": 0o644} {
		path := filepath.Join(t.TempDir(), "pki", name)
		require.NoError(t, state.Write(path, "x"))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), name)
	}
}
