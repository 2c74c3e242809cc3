package images

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnImageIsGarbageWhenNobodyNamesItsDigest(t *testing.T) {
	t.Parallel()
	held := inventory{
		{"shop-price", "sha256:used"}:            {"tag1"},
		{"shop-price", "sha256:old"}:             {"tag0"},
		{"gone-function", "sha256:lost"}:         {"tag1"},
		{"rouse-base/nodejs22", "sha256:now"}:    {"sha256-now", "v2"},
		{"rouse-base/nodejs22", "sha256:before"}: {"sha256-before", "v1"},
		{"rouse-base/own", "sha256:run"}:         {"v1"},
	}
	found := held.unused(digests{"sha256:used": true, "sha256:run": true}, map[string]bool{"v2": true})
	require.ElementsMatch(t, []image{
		{"shop-price", "sha256:old"}, {"gone-function", "sha256:lost"}, {"rouse-base/nodejs22", "sha256:before"},
	}, found)
}

func TestAnImageExpiresAfterItsGraceWithoutABreak(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := image{"a", "sha256:a"}, image{"b", "sha256:b"}
	known := graveyard{}
	require.Empty(t, known.expired([]image{a, b}, now, time.Hour))
	require.Empty(t, known.expired([]image{a}, now.Add(30*time.Minute), time.Hour), "b is in use again")
	require.Equal(t, []image{a}, known.expired([]image{a, b}, now.Add(time.Hour), time.Hour))
	require.Equal(t, []image{b}, known.expired([]image{b}, now.Add(2*time.Hour), time.Hour))
}

func TestReferencesAreTakenApart(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string][2]string{
		"registry:5000/shop/price:v1":            {"v1", ""},
		"registry:5000/shop/price":               {"", ""},
		"registry:5000/shop-price@sha256:abc":    {"", "sha256:abc"},
		"registry:5000/shop-price:v1@sha256:abc": {"v1", "sha256:abc"},
	} {
		require.Equal(t, want, [2]string{tagOf(reference), digestOf(reference)}, reference)
	}
}
