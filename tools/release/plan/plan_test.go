package plan_test

import (
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/tools/release/plan"
)

func TestAReleaseSaysWhatIsWrongWithItsVersionAndRegistry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ version, registry, problem string }{
		"a release":                  {"v0.1.0", "registry.example.com/rouse", ""},
		"a candidate":                {"v1.2.3-rc.1", "localhost:5000", ""},
		"no version":                 {"", "ghcr.io/rouse-run", `VERSION is ""`},
		"without v":                  {"0.1.0", "ghcr.io/rouse-run", `VERSION is "0.1.0": name it as v0.1.0`},
		"half a version":             {"v0.1", "ghcr.io/rouse-run", "in full"},
		"build metadata":             {"v0.1.0+dirty", "ghcr.io/rouse-run", "without build metadata"},
		"a registry with a scheme":   {"v0.1.0", "https://ghcr.io", "without a scheme"},
		"a registry with a slash":    {"v0.1.0", "ghcr.io/rouse-run/", "without a slash at the end"},
		"a registry in big letters":  {"v0.1.0", "ghcr.io/Rouse", "in small letters"},
		"a version with a big space": {"v0.1.0 ", "ghcr.io/rouse-run", "VERSION"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := plan.Release{Version: test.version, Registry: test.registry}.Validate()
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
	release := plan.Release{Version: "v0.1.0", Registry: plan.DefaultRegistry, Commit: "abc", Time: time.Unix(0, 0)}
	mac := v1.Platform{OS: "darwin", Architecture: "arm64"}
	require.Equal(t, "rouse_0.1.0_darwin_arm64.tar.gz", release.Archive(mac))
	require.Equal(t, "rouse_0.1.0_darwin_arm64.spdx.json", release.ArchiveSBOM(mac))
	require.Equal(t, "rouse-0.1.0.tgz", release.Chart())
	require.Equal(t, "ghcr.io/rouse-run/rouse-runtime-nodejs22", release.RuntimeImage("nodejs22"))
	require.Contains(t, release.Flags(), "daemon.version=v0.1.0 ")
	require.Contains(t, release.Flags(), "daemon.date=1970-01-01T00:00:00Z")
	require.Len(t, plan.CommandPlatforms(), 4)
}
