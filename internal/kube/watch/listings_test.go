package watch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
)

func listing(namespace, function string, port int32, addresses ...string) activation.Listing {
	return activation.Listing{
		Function: types.NamespacedName{Namespace: namespace, Name: function}, UID: types.UID("uid-" + function), Port: port, Addresses: addresses,
	}
}

func TestPortOfActivatorsBelongsToOneFunction(t *testing.T) {
	t.Parallel()
	const port, other = activation.FirstPort, activation.FirstPort + 1
	for name, tc := range map[string]struct {
		before holders
		slices []*discoveryv1.EndpointSlice
		want   []activation.Listing
	}{
		"no slices": {want: []activation.Listing{}},
		"sorted by Function and family": {
			slices: []*discoveryv1.EndpointSlice{
				v6(listed("price", 1, port, "fd00::1")), in("art", listed("zoo", 3, other)), listed("price", 2, port, "10.0.0.1"),
			},
			want: []activation.Listing{
				listing("art", "zoo", other), listing("shop", "price", port, "10.0.0.1"), listing("shop", "price", port, "fd00::1"),
			},
		},
		"slices of pods and broken ones are left out": {
			slices: []*discoveryv1.EndpointSlice{listed("price", 1, activation.LastPort+1), new(slice(pod("10.0.0.1", nil, nil))), listed("stock", 1, port)},
			want:   []activation.Listing{listing("shop", "stock", port)},
		},
		"a forged slice takes no port of another Function": {
			slices: []*discoveryv1.EndpointSlice{in("attack", listed("a", 2, port, "10.6.6.6")), listed("price", 1, port, "10.0.0.1")},
			want:   []activation.Listing{listing("shop", "price", port, "10.0.0.1")},
		},
		"nor by a Function of the same name": {
			slices: []*discoveryv1.EndpointSlice{in("attack", listed("price", 2, port, "10.6.6.6")), listed("price", 1, port, "10.0.0.1")},
			want:   []activation.Listing{listing("shop", "price", port, "10.0.0.1")},
		},
		"the slice of the other family comes later": {
			slices: []*discoveryv1.EndpointSlice{
				listed("price", 1, port), in("attack", listed("a", 2, port)), v6(listed("price", 3, port)), in("attack", listed("b", 3, other)),
			},
			want: []activation.Listing{listing("attack", "b", other), listing("shop", "price", port), listing("shop", "price", port)},
		},
		"equally old": {
			slices: []*discoveryv1.EndpointSlice{listed("b", 1, port), listed("a", 1, port), in("zoo", listed("a", 1, port))},
			want:   []activation.Listing{listing("shop", "a", port)},
		},
		"an old slice that is forged later": {
			before: holders{port: {Namespace: "shop", Name: "price"}},
			slices: []*discoveryv1.EndpointSlice{in("attack", listed("a", 1, port, "10.6.6.6")), listed("price", 2, port, "10.0.0.1")},
			want:   []activation.Listing{listing("shop", "price", port, "10.0.0.1")},
		},
		"a released port": {
			before: holders{port: {Namespace: "shop", Name: "price"}},
			slices: []*discoveryv1.EndpointSlice{listed("stock", 2, port), listed("price", 1, other)},
			want:   []activation.Listing{listing("shop", "price", other), listing("shop", "stock", port)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			items := make([]discoveryv1.EndpointSlice, 0, len(tc.slices))
			for _, s := range tc.slices {
				items = append(items, *s)
			}
			listings, after := listingsOf(items, tc.before)
			require.Equal(t, tc.want, listings)
			for _, each := range listings {
				require.Equal(t, each.Function, after[each.Port])
			}
		})
	}
}

func TestListingsFollowTheSlicesOfActivators(t *testing.T) {
	t.Parallel()
	const port, other = activation.FirstPort, activation.FirstPort + 1
	c, informers := newFakeCache(t, &discoveryv1.EndpointSlice{})
	informer := informers[0]
	applied := collect(t, NewListings(c).Watch)
	require.Empty(t, next(t, applied), "without slices the set is reported too")

	price, stock := listed("price", 1, port), listed("stock", 1, other)
	for _, s := range []*discoveryv1.EndpointSlice{stock, price} {
		require.NoError(t, c.Create(t.Context(), s))
	}
	informer.Add(price)
	informer.Add(stock)
	require.Equal(t, []activation.Listing{listing("shop", "price", port), listing("shop", "stock", other)}, next(t, applied), "both at once")

	awake := price.DeepCopy()
	awake.Endpoints = listed("price", 1, port, "10.0.0.1").Endpoints
	require.NoError(t, c.Update(t.Context(), awake))
	informer.Update(price, awake)
	require.Equal(t, []string{"10.0.0.1"}, next(t, applied)[0].Addresses)

	stolen := awake.DeepCopy() // it lists pods from here on
	delete(stolen.Labels, discoveryv1.LabelManagedBy)
	require.NoError(t, c.Update(t.Context(), stolen))
	informer.Update(awake, stolen)
	require.Equal(t, []activation.Listing{listing("shop", "stock", other)}, next(t, applied))

	informer.Update(stock, stock.DeepCopy()) // no relevant change
	require.NoError(t, c.Delete(t.Context(), stock))
	informer.Delete(stock)
	require.Empty(t, next(t, applied))
	require.Empty(t, applied)
}

func TestAFunctionIsListedWhileASliceHasAnActivator(t *testing.T) {
	t.Parallel()
	c, informers := newFakeCache(t, &discoveryv1.EndpointSlice{})
	informer, listings := informers[0], NewListings(c)
	watch := func(name string) <-chan bool {
		return collect(t, func(ctx context.Context, apply func(bool)) error {
			return listings.WatchFunction(ctx, types.NamespacedName{Namespace: "shop", Name: name}, apply)
		})
	}
	price, stock := watch("price"), watch("stock")
	require.False(t, next(t, price))
	require.False(t, next(t, stock))

	ready := slice(pod("10.0.0.1", new(true), nil))
	empty := listed("price", 1, activation.FirstPort)
	full := v6(listed("price", 1, activation.FirstPort, "fd00::1"))
	for _, s := range []*discoveryv1.EndpointSlice{&ready, empty, full} {
		require.NoError(t, c.Create(t.Context(), s))
		informer.Add(s)
	}
	require.True(t, next(t, price))

	drained := full.DeepCopy()
	drained.Endpoints[0].Conditions.Ready = new(false)
	require.NoError(t, c.Update(t.Context(), drained))
	informer.Update(full, drained)
	require.False(t, next(t, price))
	require.Empty(t, price)
	require.Empty(t, stock, "a watch must not receive changes of another Function")
}

func TestAWatchOfListingsEndsWithinItsPause(t *testing.T) {
	t.Parallel()
	c, _ := newFakeCache(t, &discoveryv1.EndpointSlice{})
	listings := NewListings(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, listings.Watch(ctx, func([]activation.Listing) { cancel() }))
	require.NoError(t, listings.WatchFunction(ctx, types.NamespacedName{Namespace: "shop", Name: "price"}, func(bool) {}))
	require.Empty(t, listings.watches.signals)
}

// listed returns the slice of a Function's activators, created at the given second.
func listed(function string, second int64, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: activation.SliceName(function, discoveryv1.AddressTypeIPv4), CreationTimestamp: metav1.Unix(second, 0),
			Labels: map[string]string{
				discoveryv1.LabelServiceName: function, discoveryv1.LabelManagedBy: activation.ManagedBy, v1alpha2.LabelUUID: "uid-" + function,
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(activation.PortName), Port: &port}},
	}
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return s
}

// in moves a slice to another namespace, and v6 to another address family.
func in(namespace string, s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.Namespace = namespace
	return s
}

func v6(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.AddressType = discoveryv1.AddressTypeIPv6
	s.Name = activation.SliceName(s.Labels[discoveryv1.LabelServiceName], s.AddressType)
	return s
}
