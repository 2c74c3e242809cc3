package watch

import (
	"cmp"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

// claim is a listing with the slice that it was read from.
type claim struct {
	listing activation.Listing
	slice   *discoveryv1.EndpointSlice
}

// holders are the Functions that have the ports of activators.
type holders map[int32]types.NamespacedName

// listingsOf reads slices, and leaves out those whose port another Function has: whoever may write slices in one namespace could
// take the callers of any Function otherwise.
func listingsOf(items []discoveryv1.EndpointSlice, before holders) ([]activation.Listing, holders) {
	claims := make([]claim, 0, len(items))
	best := make(map[int32]claim, len(items)) // by port
	for i := range items {
		listing, ok := activation.ListingOf(&items[i])
		if !ok {
			continue
		}
		c := claim{listing: listing, slice: &items[i]}
		claims = append(claims, c)
		if other, taken := best[listing.Port]; !taken || before.prefer(c, other) {
			best[listing.Port] = c
		}
	}
	now := make(holders, len(best))
	for port, c := range best {
		now[port] = c.listing.Function
	}
	claims = slices.DeleteFunc(claims, func(c claim) bool { return now[c.listing.Port] != c.listing.Function })
	slices.SortFunc(claims, byFunction)
	listings := make([]activation.Listing, 0, len(claims))
	for _, c := range claims {
		listings = append(listings, c.listing)
	}
	return listings, now
}

// prefer reports whether a has the port, and not b. Who had it before keeps it while it claims it, because a slice can be changed
// at any age. Else the older slice decides, and of equally old ones the first by name.
func (h holders) prefer(a, b claim) bool {
	hadA, hadB := h[a.listing.Port] == a.listing.Function, h[b.listing.Port] == b.listing.Function
	if hadA != hadB {
		return hadA
	}
	return cmp.Or(a.slice.CreationTimestamp.Compare(b.slice.CreationTimestamp.Time), byFunction(a, b)) < 0
}

// byFunction sorts by namespace and name of the Function, and then of its slices, whose names end with the address family.
func byFunction(a, b claim) int {
	return cmp.Or(
		cmp.Compare(a.listing.Function.Namespace, b.listing.Function.Namespace),
		cmp.Compare(a.listing.Function.Name, b.listing.Function.Name),
		cmp.Compare(a.slice.Name, b.slice.Name),
	)
}
