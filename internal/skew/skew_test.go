package skew

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIncompatibleReleasesNameTheRequiredVersion(t *testing.T) {
	t.Parallel()
	at := func(level, oldest int, version string) Side {
		return Side{Level: level, Oldest: oldest, Version: version}
	}
	for name, tc := range map[string]struct {
		client, server       Side
		serves, knows        error
		wantServes, wantKnow string
	}{
		"the same release":                      {client: at(3, 2, "v0.3.0"), server: at(3, 2, "v0.3.0")},
		"a client that is still served":         {client: at(2, 1, "v0.2.0"), server: at(3, 2, "v0.3.0")},
		"a client that is no longer served":     {client: at(1, 1, "v0.1.0"), server: at(3, 2, "v0.3.0"), serves: ErrClientTooOld, wantServes: "use rouse v0.3.0"},
		"a server that does not know it yet":    {client: at(3, 2, "v0.3.0"), server: at(2, 1, "v0.2.0"), knows: ErrServerTooOld, wantKnow: "upgrade it to v0.3.0, or use rouse v0.2.0"},
		"another version of the same abilities": {client: at(3, 2, "v0.3.7"), server: at(3, 2, "v0.4.0")},
	} {
		serves, knows := Serves(tc.server, tc.client), Knows(tc.server, tc.client)
		require.ErrorIs(t, serves, tc.serves, name)
		require.ErrorIs(t, knows, tc.knows, name)
		if tc.serves != nil {
			require.ErrorContains(t, serves, tc.wantServes, name)
		}
		if tc.knows != nil {
			require.ErrorContains(t, knows, tc.wantKnow, name)
		}
	}
}

func TestSideRoundTripsThroughItsHeader(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v0.1.0", "devel", "v1.2.3-rc.1+meta", "v0.1.0-5-gabc_dirty"} {
		got, ok := Parse(This(version).String())
		require.True(t, ok, version)
		require.Equal(t, This(version), got)
	}
	later, ok := Parse("level=9; oldest=7; version=v9.0.0; colour=red")
	require.True(t, ok, "a later release may add fields")
	require.Equal(t, Side{Level: 9, Oldest: 7, Version: "v9.0.0"}, later)
}

func TestParseRejectsMalformedSides(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "level", "level=1", "level=x; oldest=1; version=v1", "level=0; oldest=1; version=v1", "level=1; oldest=-1; version=v1",
		"level=1; oldest=1; version=", "level=1; oldest=1; version=\x1b[2J", "level=1; oldest=1; version=" + strings.Repeat("1", 65),
		"level=1; oldest=1; version=use rouse from evil.example",
	} {
		_, ok := Parse(text)
		require.False(t, ok, "%q", text)
	}
}

func TestResourceInAnotherVersionNamesTheSideToChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		served []string
		want   error
	}{
		"not served":             {},
		"served":                 {served: []string{"v1alpha1", "v1alpha2"}},
		"only earlier versions":  {served: []string{"v1alpha1"}, want: ErrServerTooOld},
		"only later versions":    {served: []string{"v1beta1", "v1"}, want: ErrClientTooOld},
		"an earlier and a later": {served: []string{"v1alpha1", "v1beta1"}, want: ErrClientTooOld},
	} {
		err := Resource("functions", "v1alpha2", tc.served)
		require.ErrorIs(t, err, tc.want, name)
		if tc.want != nil {
			require.ErrorContains(t, err, strings.Join(tc.served, ", "), name)
		}
	}
}
