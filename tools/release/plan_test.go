package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
)

func TestReleaseValidatesItsVersionAndRegistry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ version, registry, problem string }{
		"a release":                  {"v0.1.0", "registry.example.com/rouse", ""},
		"a candidate":                {"v1.2.3-rc.1", "localhost:5000", ""},
		"an empty version":           {"", "ghcr.io/rouse-run", `VERSION is ""`},
		"without v":                  {"0.1.0", "ghcr.io/rouse-run", `VERSION is "0.1.0": name it as v0.1.0`},
		"an incomplete version":      {"v0.1", "ghcr.io/rouse-run", "in full"},
		"build metadata":             {"v0.1.0+dirty", "ghcr.io/rouse-run", "without build metadata"},
		"a registry with a scheme":   {"v0.1.0", "https://ghcr.io", "without a scheme"},
		"a registry with a slash":    {"v0.1.0", "ghcr.io/rouse-run/", "without a slash at the end"},
		"a registry in big letters":  {"v0.1.0", "ghcr.io/Rouse", "in small letters"},
		"a version with a big space": {"v0.1.0 ", "ghcr.io/rouse-run", "VERSION"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := release{Version: test.version, Registry: test.registry}.Validate()
			if test.problem == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.problem)
		})
	}
}

func TestPartsOfAReleaseAreNamedAlike(t *testing.T) {
	t.Parallel()
	release := release{Version: "v0.1.0", Registry: defaultRegistry, Commit: "abc", Time: time.Unix(0, 0)}
	mac := v1.Platform{OS: "darwin", Architecture: "arm64"}
	require.Equal(t, "rouse_0.1.0_darwin_arm64.tar.gz", release.Archive(mac))
	require.Equal(t, "rouse_0.1.0_darwin_arm64.spdx.json", release.ArchiveSBOM(mac))
	require.Equal(t, "rouse-0.1.0.tgz", release.Chart())
	require.Equal(t, "ghcr.io/rouse-run/rouse-runtime-nodejs22", release.RuntimeImage("nodejs22"))
	require.Contains(t, release.Flags(), "daemon.version=v0.1.0 ")
	require.Contains(t, release.Flags(), "daemon.date=1970-01-01T00:00:00Z")
	require.Len(t, commandPlatforms(), 4)
}

func newRepository(t *testing.T) (checkout, func(args ...string)) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		identity := []string{"-c", "user.name=Rouse", "-c", "user.email=rouse@example.com", "-c", "commit.gpgsign=false"}
		_, err := program{Dir: dir}.Run(t.Context(), "git", append(identity, args...)...)
		require.NoError(t, err)
	}
	git("init", "--quiet")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("one"), 0o600))
	git("add", ".")
	git("commit", "--quiet", "--message", "one")
	return checkout{Dir: dir}, git
}

func TestExportContainsOnlyCommittedFiles(t *testing.T) {
	t.Parallel()
	clone, _ := newRepository(t)
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

func TestUncommittedFilesAreReported(t *testing.T) {
	t.Parallel()
	clone, _ := newRepository(t)
	require.NoError(t, os.WriteFile(filepath.Join(clone.Dir, "other"), nil, 0o600))
	_, err := clone.Head(t.Context(), "v0.1.0")
	require.ErrorContains(t, err, "1 files are not committed (?? other)")
}

func TestATagOfTheVersionHasToNameTheCommit(t *testing.T) {
	t.Parallel()
	for name, tag := range map[string][]string{"light": {"tag", "v0.1.0"}, "annotated": {"tag", "--annotate", "--message", "release", "v0.1.0"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clone, git := newRepository(t)
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
