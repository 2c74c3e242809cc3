package git

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMissingReferenceIsAnsweredWithNamesThatLookLikeIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		references []string
		asked      string
		want       string
	}{
		"two letters in the wrong order": {[]string{"refs/heads/main", "refs/heads/develop"}, "mian", ", but main. "},
		"another case":                   {[]string{"refs/heads/Main", "refs/heads/next"}, "main", ", but Main. "},
		"a tag":                          {[]string{"refs/heads/main", "refs/tags/v1.2.3"}, "v1.2.4", ", but v1.2.3. "},
		"the nearest first":              {[]string{"refs/heads/release-10", "refs/heads/release-2", "refs/heads/main"}, "release-1", ", but release-10, release-2. "},
		"a branch and a tag of one name": {[]string{"refs/heads/v1", "refs/tags/v1"}, "v2", ", but v1. "},
		"nothing like it":                {[]string{"refs/heads/main", "refs/heads/develop"}, "release", ", but develop, main. "},
		"many":                           {[]string{"refs/heads/a", "refs/heads/b", "refs/heads/c", "refs/heads/d", "refs/heads/e", "refs/heads/f"}, "release", ", but a, b, c, d, e, .... "},
		"pull requests are no branches":  {[]string{"refs/pull/1/head"}, "release", `"release". `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := newSelection([]string{tc.asked})
			for i, reference := range tc.references {
				seen.see([]byte(reference), fmt.Appendf(nil, "%040d", i+1))
			}
			_, err := seen.references().Resolve(tc.asked)
			require.ErrorContains(t, err, tc.want+"Correct spec.source.gitRepository.reference")
		})
	}
}

func TestDistanceCountsLettersThatDiffer(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]int{
		{"main", "main"}: 0, {"main", "MAIN"}: 0, {"main", "man"}: 1, {"man", "main"}: 1, {"main", "mian"}: 2, {"abc", "xyz"}: 3, {"a", "abcdefgh"}: 4, {"", ""}: 0,
	} {
		require.Equal(t, want, distance(pair[0], pair[1]), "%v", pair)
	}
}

func TestHintsForManyReferencesAreThoseOfAFew(t *testing.T) {
	t.Parallel()
	var asked []string
	for i := range maxHints + 1 {
		asked = append(asked, fmt.Sprintf("release-%d", i))
	}
	seen := newSelection(asked)
	for _, name := range []string{"main", "release-x"} {
		seen.see([]byte(branches+name), fmt.Appendf(nil, "%040d", 1))
	}
	_, err := seen.references().Resolve("release-0")
	require.ErrorContains(t, err, ", but release-x. ")
	_, err = seen.references().Resolve(asked[maxHints])
	require.ErrorContains(t, err, ", but main, release-x. ")
}
