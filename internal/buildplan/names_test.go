package buildplan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTagsOfOursAreKnown(t *testing.T) {
	t.Parallel()
	ours := Tag(Plan{Runtime: "nodejs22"})
	for tag, want := range map[string]bool{
		ours: true, ours + "-0123abcd": true, "latest": false, "": false, ours[:40]: false, ours + "-x": false, "x" + ours: false,
	} {
		require.Equal(t, want, IsTag(tag), tag)
	}
}

func TestACopyIsKnownByTheOriginalsTagOrDigestAndSaysItsOwnDigest(t *testing.T) {
	t.Parallel()
	long, digest := strings.Repeat("v", 128), "sha256:"+strings.Repeat("0f", 32)
	for _, identifier := range []string{"v2", "2.0-rc1", "sha256:" + strings.Repeat("a", 64), long, "latest"} {
		tag := CopyTag(identifier, digest)
		require.LessOrEqual(t, len(tag), 128, "the longest tag of a registry")
		require.True(t, IsCopyOf(tag, identifier), tag)
		require.False(t, IsCopyOf(tag, "v"), tag)
		promised, ok := CopyDigest(tag)
		require.True(t, ok)
		require.Equal(t, digest, promised)
	}
	require.False(t, IsCopyOf("v2-rc1-amd64", "v2"))
	require.False(t, IsCopyOf("v2", "v2"))
	for _, tag := range []string{"v2", "v2-amd64", strings.Repeat("a", 64), "v2-" + strings.Repeat("A", 64), ""} {
		_, ok := CopyDigest(tag)
		require.False(t, ok, tag)
	}
}
