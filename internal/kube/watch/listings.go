package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
)

// readPause is the minimum time between two reads of all listings. A rollout of the gateways changes each of them, and
// each read processes all.
const readPause = 100 * time.Millisecond

// Listings reports the listings of Functions' activators.
type Listings struct {
	cache   cache.Cache
	watches *serviceWatches
}

// NewListings returns Listings that read EndpointSlices from c.
func NewListings(c cache.Cache) *Listings {
	return &Listings{cache: c, watches: newServiceWatches(c, functionOf, &discoveryv1.EndpointSlice{})}
}

// Watch calls apply with the listings of all Functions, sorted by Function with IPv4 first, until ctx ends. No two
// Functions have the same port: the Function that has had it since the watch began keeps it, or else the one with the
// oldest slice.
func (l *Listings) Watch(ctx context.Context, apply func([]activation.Listing)) error {
	changed := newSignal()
	remove, inStep, err := onChange(ctx, l.cache, &discoveryv1.EndpointSlice{}, func(before, after any) {
		if isOurs(before) || isOurs(after) {
			changed.raise()
		}
	})
	if err != nil {
		return err
	}
	defer remove()
	if ok, err := awaitSync(ctx, l.cache, inStep); !ok {
		return err
	}
	var ports holders
	read := func(ctx context.Context) (listings []activation.Listing, err error) {
		listings, ports, err = l.read(ctx, ports)
		return listings, err
	}
	return follow(ctx, changed, read, func(listings []activation.Listing) {
		apply(listings)
		select {
		case <-ctx.Done():
		case <-time.After(readPause):
		}
	})
}

// WatchFunction calls apply with whether an activator of the Function is listed, until ctx ends.
func (l *Listings) WatchFunction(ctx context.Context, function types.NamespacedName, apply func(listed bool)) error {
	return followService(ctx, l.watches, function, newSignal(), func(ctx context.Context) (bool, error) { return l.isListed(ctx, function) }, apply)
}

func (l *Listings) read(ctx context.Context, before holders) ([]activation.Listing, holders, error) {
	var list discoveryv1.EndpointSliceList
	ours := client.MatchingLabels{discoveryv1.LabelManagedBy: activation.ManagedBy}
	if err := l.cache.List(ctx, &list, ours, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list EndpointSlices of activators: %w", err)
	}
	listings, now := listingsOf(list.Items, before)
	return listings, now, nil
}

func (l *Listings) isListed(ctx context.Context, function types.NamespacedName) (bool, error) {
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		name := types.NamespacedName{Namespace: function.Namespace, Name: activation.SliceName(function.Name, family)}
		var slice discoveryv1.EndpointSlice
		err := l.cache.Get(ctx, name, &slice, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("get EndpointSlice %s: %w", name, err)
		}
		if listing, ok := activation.ListingOf(&slice); ok && len(listing.Addresses) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// functionOf returns the Function whose activators an object lists.
func functionOf(obj any) types.NamespacedName {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok || !activation.IsOurs(slice) {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

// isOurs reports whether an object lists activators.
func isOurs(obj any) bool { return functionOf(obj) != types.NamespacedName{} }

// claim is a listing with its slice.
type claim struct {
	listing activation.Listing
	slice   *discoveryv1.EndpointSlice
}

// holders maps the ports of activators to their Functions.
type holders map[int32]types.NamespacedName

// listingsOf reads slices, and leaves out those whose port belongs to another Function: otherwise anyone who may write
// slices in one namespace could receive the requests to any Function.
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

// prefer reports whether a has precedence over b for the port. A Function that had it keeps it, because a slice can be
// changed at any age. Otherwise the older slice has precedence, and of equally old ones the first by name.
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
