package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestAProcessRunsTheControllersThatItsFlagSays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		want    map[string]bool
		problem string
	}{
		"all, unless it is said": {[]string{"--builder-image=rouse"}, map[string]bool{functions: true, activators: true, apiRules: true, subscriptions: true}, ""},
		"that of Functions":      {[]string{"--controllers=functions", "--builder-image=rouse", "--nats-url="}, map[string]bool{functions: true, activators: false, subscriptions: false}, ""},
		"the others": {
			[]string{"--controllers=activators,apirules,subscriptions"}, map[string]bool{functions: false, activators: true, apiRules: true}, "",
		},
		"that of Functions without what it needs": {[]string{"--controllers=functions"}, nil, "--builder-image: must be the image of Rouse"},
		"the others without NATS":                 {[]string{"--controllers=subscriptions", "--nats-url="}, nil, "--nats-url"},
		"one that there is not":                   {[]string{"--controllers=function"}, nil, `--controllers "function": must be of functions, activators, apirules, subscriptions`},
		"none":                                    {[]string{"--controllers="}, nil, "--controllers: must not be empty"},
		"no lease":                                {[]string{"--leader-elect-lease="}, nil, "--leader-elect-lease: must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, flags := defaultOptions(), pflag.NewFlagSet("controller", pflag.ContinueOnError)
			o.BindFlags(flags)
			require.NoError(t, flags.Parse(tc.args))
			err := o.Validate()
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			for controller, want := range tc.want {
				require.Equal(t, want, o.runs(controller), controller)
			}
		})
	}
}
