package fips

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcessStartsOnlyInItsConfiguredMode(t *testing.T) {
	t.Parallel()
	off, on := State{Version: "v1.0.0"}, State{Enabled: true, Version: "v1.0.0"}
	only, unfrozen := State{Enabled: true, Enforced: true, Version: "v1.0.0"}, State{Enabled: true, Version: "latest"}
	for name, tc := range map[string]struct {
		mode  Mode
		state State
		says  []string
	}{
		"off where the process is off":     {Off, off, nil},
		"off where the environment has it": {Off, on, nil},
		"on where it is on":                {On, on, nil},
		"on where the process is stricter": {On, only, nil},
		"only where the process is only":   {Only, only, nil},
		"on where it is off":               {On, off, []string{"on is requested", "mode is off", "GODEBUG=fips140=on"}},
		"only where it is off":             {Only, off, []string{"only is requested", "mode is off", "GODEBUG=fips140=only,tlsmlkem=0"}},
		"only where it is on":              {Only, on, []string{"only is requested", "mode is on", "GODEBUG=fips140=only,tlsmlkem=0"}},
		"on without a frozen module":       {On, unfrozen, []string{"no frozen version", "GOFIPS140=v1.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.mode.Check(tc.state)
			if tc.says == nil {
				require.NoError(t, err)
				return
			}
			for _, text := range tc.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestModesMapToGosSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		setting string
		state   State
	}{
		"off": {"", State{}}, "on": {"fips140=on", State{Enabled: true}}, "only": {"fips140=only,tlsmlkem=0", State{Enabled: true, Enforced: true}},
	} {
		mode, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, want.setting, mode.Setting())
		require.Equal(t, mode, want.state.Mode())
	}
	for _, text := range []string{"", "true", "ON", "debug"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "use off, on or only")
	}
}
