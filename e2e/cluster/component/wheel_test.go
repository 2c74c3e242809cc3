package component

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequirementOfAWheelAllowsOnlyItsHashes(t *testing.T) {
	t.Parallel()
	wheel := Wheel{Package: "hello", Version: "1.2.3", Hashes: []string{"aa", "bb"}}
	require.Equal(t, "hello==1.2.3 --hash=sha256:aa --hash=sha256:bb\n", wheel.requirement())
}

func TestKeyOfAWheelChangesWithItsVersionAndHash(t *testing.T) {
	t.Parallel()
	builder, _ := repository(t)
	key := func(version, hash string) string {
		key, err := builder.key(Component{Name: "hello", Wheel: Wheel{Package: "hello", Version: version, File: "hello", Hashes: []string{hash}}})
		require.NoError(t, err)
		return key
	}
	require.NotEqual(t, key("1", "aa"), key("2", "aa"))
	require.NotEqual(t, key("1", "aa"), key("1", "bb"))
}
