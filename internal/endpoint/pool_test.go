package endpoint

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPoolCountsRequestsInFlight(t *testing.T) {
	t.Parallel()
	p := NewPool(Options[struct{}]{})
	require.Nil(t, p.Pick())
	both := []routing.Endpoint{loopback.Ready("a:1"), loopback.Ready("b:1")}
	p.Apply(both)
	first, second := p.Pick(), p.Pick()
	require.Equal(t, "a:1", first.Address())
	require.Equal(t, "b:1", second.Address())
	p.Done(second)
	require.Same(t, second, p.Pick())
	require.Same(t, first, p.Pick(), "both have one, and it is the next")
	require.Equal(t, 2, p.InFlight(first))
	p.Done(first)
	p.Apply(both)
	require.Same(t, second, p.Pick(), "applying the same addresses must keep their state, and this one is the next")
	p.Done(second)

	p.Apply(both[:1])
	p.Done(second) // the response of a removed address
	require.Same(t, first, p.Pick())
	require.Zero(t, p.InFlight(second))
}

func TestPoolCountsUsableAddressesAndReportsReadiness(t *testing.T) {
	t.Parallel()
	const address = "a:1"
	for name, tc := range map[string]struct {
		endpoints []routing.Endpoint
		refused   bool
		usable    int
		ready     bool
	}{
		"none":                                  {},
		"ready":                                 {endpoints: []routing.Endpoint{loopback.Ready(address)}, usable: 1, ready: true},
		"one ready address and one that is not": {endpoints: []routing.Endpoint{loopback.Ready(address), {Address: "b:1"}}, usable: 1, ready: true},
		"two":                                   {endpoints: []routing.Endpoint{loopback.Ready(address), loopback.Ready("b:1")}, usable: 2, ready: true},
		"a starting Function":                   {endpoints: []routing.Endpoint{loopback.StartingSink(address)}},
		"ready and terminating":                 {endpoints: []routing.Endpoint{{Address: address, Ready: true, Terminating: true}}},
		"ready but refused":                     {endpoints: []routing.Endpoint{loopback.Ready(address)}, refused: true, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := NewPool(Options[struct{}]{})
			p.Apply([]routing.Endpoint{loopback.Ready("before:1")})
			p.Apply(tc.endpoints)
			if tc.refused {
				p.Refuse(p.Pick())
			}
			require.Equal(t, tc.usable, p.Usable(), "usable")
			require.Equal(t, tc.ready, p.Ready(), "ready")
			require.Equal(t, tc.usable > 0, p.Gate().IsOpen(), "open")
		})
	}
}

func TestAddressThatRefusesIsNotPicked(t *testing.T) {
	t.Parallel()
	p := NewPool(Options[struct{}]{})
	p.Apply([]routing.Endpoint{loopback.Ready("a:1"), loopback.Ready("b:1")})
	first := p.Pick()
	p.Refuse(first)
	for range 3 {
		require.Equal(t, "b:1", p.Pick().Address())
	}
	p.Apply([]routing.Endpoint{loopback.Ready("b:1")})
	p.Refuse(first)
	require.Equal(t, 1, p.Usable(), "a removed address cannot refuse")
}

func TestAddressKeepsItsValueWhileItIsKnown(t *testing.T) {
	t.Parallel()
	var made []string
	p := NewPool(Options[string]{Value: func(address string) string {
		made = append(made, address)
		return "value of " + address
	}})
	values := func() (all []string) {
		p.Each(func(value string) { all = append(all, value) })
		return all
	}
	for range 2 {
		p.Apply([]routing.Endpoint{loopback.Ready("a:1"), loopback.StartingSink("b:1")})
	}
	require.Equal(t, []string{"a:1", "b:1"}, made)
	require.ElementsMatch(t, []string{"value of a:1", "value of b:1"}, values(), "unusable addresses are included")
	require.Equal(t, "value of a:1", p.Pick().Value)
	p.Apply(nil)
	require.Empty(t, values())
	p.Apply([]routing.Endpoint{loopback.Ready("a:1")})
	require.Equal(t, []string{"a:1", "b:1", "a:1"}, made)
}

func TestChangesOfTheGateAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changes []Change
		p := NewPool(Options[struct{}]{OnGate: func(change Change) { changes = append(changes, change) }})
		for _, endpoints := range [][]routing.Endpoint{
			{loopback.StartingSink("a:1"), loopback.StartingSink("b:1")},
			{loopback.StartingSink("a:1"), loopback.Ready("b:1")},
			{loopback.Ready("a:1"), loopback.Ready("b:1")},
			{loopback.Ready("b:1")},
			nil,
		} {
			time.Sleep(time.Second)
			p.Apply(endpoints)
		}
		require.Equal(t, []Change{
			{Open: true, Address: "b:1", Waited: time.Second, Lasted: 2 * time.Second},
			{Address: "b:1", Lasted: 3 * time.Second},
		}, changes)
	})
}

// The cost of a delivery.
func TestPickAndDoneAllocateNothing(t *testing.T) {
	p := NewPool(Options[*struct{}]{})
	p.Apply([]routing.Endpoint{loopback.Ready("a:1"), loopback.Ready("b:1")})
	require.Zero(t, testing.AllocsPerRun(100, func() { p.Done(p.Pick()) }))
}

func TestAnAddressIsUsableOrWorthDialling(t *testing.T) {
	t.Parallel()
	ready, starting, other := routing.Endpoint{Ready: true}, routing.Endpoint{Function: true}, routing.Endpoint{}
	for name, tc := range map[string]struct {
		candidate  candidate
		wantUsable bool
		wantDial   bool
	}{
		"ready":                                   {candidate: candidate{endpoint: ready}, wantUsable: true},
		"ready but refused":                       {candidate: candidate{endpoint: ready, reach: refused}, wantDial: true},
		"ready and accepts again":                 {candidate: candidate{endpoint: ready, reach: accepted}, wantUsable: true},
		"a starting Function":                     {candidate: candidate{endpoint: starting}, wantDial: true},
		"a starting Function that refused":        {candidate: candidate{endpoint: starting, reach: refused}, wantDial: true},
		"a starting Function that accepts":        {candidate: candidate{endpoint: starting, reach: accepted}, wantUsable: true},
		"a Function that lost its readiness":      {candidate: candidate{endpoint: starting, wasReady: true}},
		"another Service that is not ready":       {candidate: candidate{endpoint: other}},
		"ready and terminating":                   {candidate: candidate{endpoint: routing.Endpoint{Ready: true, Terminating: true}}},
		"a starting Function that is terminating": {candidate: candidate{endpoint: routing.Endpoint{Function: true, Terminating: true}}},
		"accepting and terminating": {
			candidate: candidate{endpoint: routing.Endpoint{Function: true, Terminating: true}, reach: accepted},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.wantUsable, tc.candidate.usable(), "usable")
			require.Equal(t, tc.wantDial, tc.candidate.worthDialling(), "worth dialling")
		})
	}
}

func TestChangeOfReadinessDiscardsResultsOfConnects(t *testing.T) {
	t.Parallel()
	c := candidate{endpoint: routing.Endpoint{Function: true}, reach: accepted}
	c.update(routing.Endpoint{Function: true, Ready: true})
	require.True(t, c.usable())

	c.reach = refused
	c.update(routing.Endpoint{Function: true, Ready: true})
	require.False(t, c.usable(), "news without a change of readiness do not make it reachable")

	c.update(routing.Endpoint{Function: true})
	require.False(t, c.usable())
	require.False(t, c.worthDialling(), "it was ready before, so its probe decides")
	c.update(routing.Endpoint{Function: true, Ready: true})
	require.True(t, c.usable())
}

func TestTheGateWaitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := NewGate(false)
	_, err := g.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	g.set(true)
	_, err = g.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled, "a caller that is stopping is not let through")
}

func TestGateNotifiesItsWaitersWhenItCloses(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]*Gate{"opened later": NewGate(false), "open from the start": NewGate(true)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g.set(true)
			require.True(t, g.IsOpen())
			require.False(t, g.set(true), "no change")
			closed, err := g.Wait(t.Context())
			require.NoError(t, err)
			requireOpen(t, closed)
			require.True(t, g.set(false))
			<-closed
			require.False(t, g.IsOpen())
			require.True(t, g.set(true))
			again, err := g.Wait(t.Context())
			require.NoError(t, err)
			requireOpen(t, again)
		})
	}
}

func requireOpen(t *testing.T, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
		require.Fail(t, "the gate has closed")
	default:
	}
}

func TestLeastLoadedPicksTheFewestRequests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		inFlight []int
		next     int
		want     int
	}{
		"no address":                            {want: -1},
		"the only one, however busy":            {inFlight: []int{9}, next: 1, want: 0},
		"the idle one":                          {inFlight: []int{2, 1, 0, 3}, want: 2},
		"of equals, the next one":               {inFlight: []int{1, 1, 1}, next: 1, want: 1},
		"of equals, the first from next on":     {inFlight: []int{1, 1, 2}, next: 2, want: 0},
		"a next beyond the last is the first":   {inFlight: []int{0, 0}, next: 2, want: 0},
		"a next beyond the remaining addresses": {inFlight: []int{0, 0}, next: 7, want: 1},
		"a busy one is skipped":                 {inFlight: []int{0, 5, 0}, next: 1, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Pool[struct{}]{next: tc.next}
			for _, requests := range tc.inFlight {
				p.usable = append(p.usable, &Member[struct{}]{inFlight: requests})
			}
			require.Equal(t, tc.want, p.leastLoaded())
		})
	}
}
