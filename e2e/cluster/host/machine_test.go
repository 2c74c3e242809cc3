package host

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingDiskSpaceIsReportedWithItsDirectory(t *testing.T) {
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

func TestFreeBytesUsesTheNearestExistingDirectory(t *testing.T) {
	t.Parallel()
	free, err := freeBytes(t.TempDir() + "/not/yet/there")
	require.NoError(t, err)
	require.Positive(t, free)
}

func TestMissingPackagesAreThoseWhoseChecksFail(t *testing.T) {
	t.Parallel()
	present := t.TempDir() + "/plugin"
	require.NoError(t, os.WriteFile(present, nil, 0o600))
	missing := MissingPackages(t.Context(), []Package{
		{Name: "shell", File: "sh"},
		{Name: "plugin", File: present},
		{Name: "module", Works: []string{"sh", "-c", "exit 0"}},
		{Name: "absent-program", File: "no-such-program-of-any-package"},
		{Name: "absent-file", File: present + "s"},
		{Name: "absent-module", Works: []string{"sh", "-c", "exit 1"}},
	})
	require.Equal(t, []string{"absent-program", "absent-file", "absent-module"}, missing)
}
