package apirules

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A path that changed when it is looked at again would be one to the rules and another to the backend.
func FuzzAPathHasOneForm(f *testing.F) {
	for _, seed := range []string{"/", "/a/../b", "/%2e%2e/x", "/a%2f%61", "//..//", "/%252e", "/\\{}", "*", "/.%2e/..", "/%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		path, ok := normalPath(u)
		if !ok {
			return
		}
		forwarded := withPath(u, path)
		require.Equal(t, path, forwarded.EscapedPath())
		again, ok := normalPath(forwarded)
		require.True(t, ok)
		require.Equal(t, path, again)
		for segment := range strings.SplitSeq(path, "/") {
			require.NotContains(t, []string{".", ".."}, segment)
		}
		require.True(t, isPlain(strings.ReplaceAll(path, "%", ""), isPathByte))
	})
}
