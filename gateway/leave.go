package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/rouse-run/rouse/internal/activation"
)

// lookListed is how often a gateway that stops looks whether it is listed.
const lookListed = 50 * time.Millisecond

// leave returns when nobody is led here any more: for as long as nodes may take to know, no listing has had this gateway. The
// controller takes it out at once. While none leads, as in an upgrade that replaces both, it stays listed, and callers come.
func (g *Gateway) leave(ctx context.Context) {
	limit, ticker := time.After(g.options.ListedTimeout), time.NewTicker(lookListed)
	defer ticker.Stop()
	for waits := true; waits && g.listed.Load(); {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			waits = false
			g.deps.Log.Info("still listed as an activator: is there a controller?", "after", g.options.ListedTimeout.String())
		case <-ticker.C:
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(g.options.DrainDelay):
	}
}

// lists reports whether one of the listings leads to one of the addresses.
func lists(listings []activation.Listing, addresses []string) bool {
	return slices.ContainsFunc(listings, func(listing activation.Listing) bool {
		return slices.ContainsFunc(listing.Addresses, func(address string) bool { return slices.Contains(addresses, address) })
	})
}
