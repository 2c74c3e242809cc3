package toolchain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// ignored ignores progress.
func ignored() {}

func newStore(dir string) *store { return &store{dir: dir, whole: map[string]bool{}} }

func TestConcurrentRequestsShareOneStoreEntry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var made atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		s := newStore(dir) // as another process would
		all.Go(func() {
			entry, err := s.entry(t.Context(), "kind", "key", ignored, func(dir, _ string) error {
				made.Add(1)
				return os.WriteFile(filepath.Join(dir, "file"), []byte("whole"), 0o600)
			})
			if err == nil {
				_, err = os.ReadFile(filepath.Join(entry, "file"))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, made.Load())
}

func TestIncompleteEntryIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, entry string){
		"a file is missing": func(t *testing.T, entry string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(entry, "a/file")))
		},
		"a file is cut": func(t *testing.T, entry string) {
			t.Helper()
			require.NoError(t, os.Truncate(filepath.Join(entry, "a/file"), 1))
		},
		"the entry is missing": func(t *testing.T, entry string) { t.Helper(); require.NoError(t, os.RemoveAll(entry)) },
		"it is unfinished":     func(t *testing.T, entry string) { t.Helper(); require.NoError(t, os.Remove(entry+listing)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, made := t.TempDir(), 0
			get := func() string {
				entry, err := newStore(dir).entry(t.Context(), "kind", "key", ignored, func(dir, final string) error {
					made++
					require.NotEqual(t, dir, final)
					require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
					return os.WriteFile(filepath.Join(dir, "a/file"), []byte("whole"), 0o600)
				})
				require.NoError(t, err)
				return entry
			}
			entry := get()
			get()
			require.Equal(t, 1, made)
			damage(t, entry)
			get()
			require.Equal(t, 2, made)
			require.FileExists(t, filepath.Join(entry, "a/file"))
		})
	}
}

func TestFailedEntryDoesNotExist(t *testing.T) {
	t.Parallel()
	s := newStore(t.TempDir())
	fault := errors.New("no network")
	_, err := s.entry(t.Context(), "kind", "key", ignored, func(dir, _ string) error {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "half"), nil, 0o600))
		return fault
	})
	require.ErrorIs(t, err, fault)
	entry, err := s.entry(t.Context(), "kind", "key", ignored, func(string, string) error { return nil })
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(entry, "half"))
}

func TestWaitForAStoreLockIsCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := newStore(dir).entry(t.Context(), "kind", "key", ignored, func(string, string) error {
		cancel()
		_, err := newStore(dir).entry(ctx, "kind", "key", ignored, nil)
		require.ErrorIs(t, err, context.Canceled)
		return nil
	})
	require.NoError(t, err)
}
