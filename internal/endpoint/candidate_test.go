package endpoint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
)

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

func TestAChangeOfReadinessForgetsWhatConnectsHaveShown(t *testing.T) {
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
