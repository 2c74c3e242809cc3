package host

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingDiskSaysWhereAndHowMuch(t *testing.T) {
	t.Parallel()
	const gigabyte = 1 << 30
	free := func(dir string) (uint64, error) {
		switch dir {
		case "/roomy":
			return 50 * gigabyte, nil
		case "/full":
			return gigabyte / 2, nil
		default:
			return 0, errors.New("no such device")
		}
	}
	require.Empty(t, missingDisk([]string{"/roomy"}, free))
	require.Equal(t, []string{"disk: /full has 0.5 GB free, 10 GB are needed", "disk: no such device"},
		missingDisk([]string{"/roomy", "/full", "/gone"}, free))
}

func TestFreeBytesAsksTheNearestDirectoryThatExists(t *testing.T) {
	t.Parallel()
	free, err := freeBytes(t.TempDir() + "/not/yet/there")
	require.NoError(t, err)
	require.Positive(t, free)
}

func TestMissingPackagesAreThoseWhoseFileIsNotThere(t *testing.T) {
	t.Parallel()
	present := t.TempDir() + "/plugin"
	require.NoError(t, os.WriteFile(present, nil, 0o600))
	missing := Missing([]Package{
		{"shell", "sh"}, {"plugin", present}, {"absent-program", "no-such-program-of-any-package"}, {"absent-file", present + "s"},
	})
	require.Equal(t, []string{"absent-program", "absent-file"}, missing)
}
