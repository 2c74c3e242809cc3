package checkout_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/tools/release/checkout"
	"github.com/rouse-run/rouse/tools/release/program"
)

func repository(t *testing.T) (checkout.Checkout, func(args ...string)) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		identity := []string{"-c", "user.name=Rouse", "-c", "user.email=rouse@example.com", "-c", "commit.gpgsign=false"}
		_, err := program.Program{Dir: dir}.Run(t.Context(), "git", append(identity, args...)...)
		require.NoError(t, err)
	}
	git("init", "--quiet")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("one"), 0o600))
	git("add", ".")
	git("commit", "--quiet", "--message", "one")
	return checkout.Checkout{Dir: dir}, git
}

func TestACommitIsReleasedWithoutWhatIsNotInIt(t *testing.T) {
	t.Parallel()
	clone, _ := repository(t)
	commit, err := clone.Head(t.Context(), "v0.1.0")
	require.NoError(t, err)
	require.Len(t, commit.ID, 40)
	require.False(t, commit.Time.IsZero())
	require.NoError(t, os.WriteFile(filepath.Join(clone.Dir, "other"), nil, 0o600))
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, clone.Export(t.Context(), commit, out))
	files, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, "file", files[0].Name())
}

func TestFilesThatAreNotCommittedAreNamed(t *testing.T) {
	t.Parallel()
	clone, _ := repository(t)
	require.NoError(t, os.WriteFile(filepath.Join(clone.Dir, "other"), nil, 0o600))
	_, err := clone.Head(t.Context(), "v0.1.0")
	require.ErrorContains(t, err, "1 files are not committed (?? other)")
}

func TestATagOfTheVersionHasToNameTheCommit(t *testing.T) {
	t.Parallel()
	for name, tag := range map[string][]string{"light": {"tag", "v0.1.0"}, "annotated": {"tag", "--annotate", "--message", "release", "v0.1.0"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clone, git := repository(t)
			git(tag...)
			_, err := clone.Head(t.Context(), "v0.1.0")
			require.NoError(t, err)
			git("commit", "--quiet", "--allow-empty", "--message", "two")
			_, err = clone.Head(t.Context(), "v0.1.0")
			require.ErrorContains(t, err, "the tag v0.1.0 is there and names commit")
			_, err = clone.Head(t.Context(), "v0.2.0")
			require.NoError(t, err)
		})
	}
}
