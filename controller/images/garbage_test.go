package images

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
)

var hex = strings.Repeat("0f", 32)

// tag is one that a build gives.
func tag(of string) string { return buildplan.Tag(buildplan.Plan{Source: of}) }

func TestAnImageIsGarbageWhenItIsOursAndUnused(t *testing.T) {
	t.Parallel()
	price, fresh := registry.Tenant{Namespace: "shop", UID: "1"}.Repository("price"), registry.Tenant{Namespace: "shop", UID: "1"}.Repository("new")
	held := inventory{
		{price, "sha256:used"}:                          {tag("1")},
		{price, "sha256:old"}:                           {tag("0")},
		{price, "sha256:again"}:                         {tag("0") + "-0123abcd"},
		{price, "sha256:hand"}:                          {tag("2"), "keep"},
		{price, "sha256:junk"}:                          {"latest"},
		{fresh, "sha256:just"}:                          {tag("1")},
		{"gone-function", "sha256:lost"}:                {tag("1")},
		{"team/tool", "sha256:foreign"}:                 {tag("1")},
		{"mytool", "sha256:foreign"}:                    {"latest"},
		{"rouse-base/ghcr.io/nodejs22", "sha256:now"}:   {"sha256-0000-" + hex, "v2-" + hex},
		{"rouse-base/ghcr.io/nodejs22", "sha256:arm"}:   {"v2-" + hex},
		{"rouse-base/ghcr.io/nodejs22", "sha256:old"}:   {"sha256-1111-" + hex, "v1-" + hex},
		{"rouse-base/ghcr.io/nodejs22", "sha256:moved"}: {"sha256-2222-" + hex},
		{"rouse-base/own.io/pinned", "sha256:pin"}:      {"sha256-abcd-" + hex},
		{"rouse-base/own.io/runs", "sha256:run"}:        {"v1-" + hex},
	}
	found := held.unused(needs{
		digests:  map[string]bool{"sha256:used": true, "sha256:run": true},
		bases:    map[string]bool{"v2": true, "sha256:abcd": true},
		building: map[types.NamespacedName]bool{{Namespace: "shop", Name: "new"}: true},
	})
	require.ElementsMatch(t, []image{
		{price, "sha256:old"},
		{price, "sha256:again"},
		{price, "sha256:hand"},
		{price, "sha256:junk"},
		{"gone-function", "sha256:lost"},
		{"rouse-base/ghcr.io/nodejs22", "sha256:old"},
		{"rouse-base/ghcr.io/nodejs22", "sha256:moved"},
	}, found)
}

func TestAnImageExpiresAfterItsGraceWithoutABreak(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := image{"a", "sha256:a"}, image{"b", "sha256:b"}
	known := unusedSince{}
	require.Empty(t, known.expired([]image{a, b}, now, time.Hour))
	require.Empty(t, known.expired([]image{a}, now.Add(30*time.Minute), time.Hour), "b is in use again")
	require.Equal(t, []image{a}, known.expired([]image{a, b}, now.Add(time.Hour), time.Hour))
	require.Equal(t, []image{b}, known.expired([]image{b}, now.Add(2*time.Hour), time.Hour))
}

func TestReferencesAreTakenApart(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for reference, want := range map[string][2]string{
		"registry:5000/shop/price:v1":           {"v1", ""},
		"registry:5000/shop/price":              {"latest", ""},
		"registry:5000/shop-price@" + digest:    {digest, digest},
		"registry:5000/shop-price:v1@" + digest: {digest, digest},
		"price":                                 {"latest", ""},
	} {
		require.Equal(t, want, [2]string{identifierOf(reference), digestOf(reference)}, reference)
	}
}
