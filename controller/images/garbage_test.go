package images

import (
	"strconv"
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
	a, b := image{price, "sha256:a"}, image{price, "sha256:b"}
	both := inventory{a: {"1"}, b: {"2"}}
	known, nobody := newUnusedSince(), needs{}
	look := func(used needs, after time.Duration) []image {
		known.begin()
		defer known.end()
		return known.expired(both, used, now.Add(after), time.Hour)
	}
	require.Empty(t, look(nobody, 0))
	require.Empty(t, look(needs{digests: map[string]bool{"sha256:b": true}}, 30*time.Minute))
	require.Equal(t, []image{a}, look(nobody, time.Hour))
	require.ElementsMatch(t, []image{a, b}, look(nobody, 2*time.Hour))
	both = inventory{}
	look(nobody, 3*time.Hour)
	require.Empty(t, known.since, "what is gone is forgotten")
	used, _ := known.shares.Stats()
	require.Zero(t, used)
}

func TestImagesOfOneNamespaceFillNoMoreThanTheirShareOfTheMemory(t *testing.T) {
	t.Parallel()
	known := newUnusedSince()
	many := inventory{}
	for i := range mostUnused {
		many[image{price, strconv.Itoa(i)}] = nil
	}
	known.expired(many, needs{}, time.Now(), 0)
	require.Len(t, known.since, mostUnused/2)
	other := image{registry.Tenant{Namespace: "other", UID: "1"}.Repository("f"), "sha256:a"}
	require.Equal(t, []image{other}, known.expired(inventory{other: nil}, needs{}, time.Now(), 0))
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
