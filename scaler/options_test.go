package scaler

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestDefaultOptionsAreValidAndSurviveTheirFlags(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	fs := pflag.NewFlagSet("scaler", pflag.ContinueOnError)
	options.BindFlags(fs)
	require.NoError(t, fs.Parse(nil))
	require.NoError(t, options.Validate())
	require.Equal(t, DefaultOptions(), options)
}

func TestInvalidOptionsAreAllNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want []string
	}{
		"empty names": {
			args: []string{"--grpc-address=", "--stream-name="},
			want: []string{"--grpc-address must not be empty", "--stream-name must not be empty"},
		},
		"durations that no timer takes": {
			args: []string{"--refresh-active-interval=0s", "--push-repeat=-1s", "--drain-delay=-1s"},
			want: []string{"--refresh-active-interval must be more than 0", "--push-repeat must be more than 0, is -1s", "must not be negative"},
		},
		"readings that are too old before the next one": {
			args: []string{"--refresh-idle-interval=10s"},
			want: []string{"--refresh-max-age (15s) must be at least 22s"},
		},
		"a first answer that never comes in time": {
			args: []string{"--first-answer-wait=2s"},
			want: []string{"--first-answer-wait (2s) must be less than --answer-timeout (1s)"},
		},
		"a negative grace": {
			args: []string{"--activator-grace=-1s"},
			want: []string{"--activator-grace must not be negative"},
		},
		"half a certificate": {
			args: []string{"--tls-cert=/cert"},
			want: []string{"--tls-cert and --tls-key must be set together"},
		},
		"an authority without a certificate": {
			args: []string{"--tls-client-ca=/ca"},
			want: []string{"--tls-client-ca needs --tls-cert and --tls-key"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			fs := pflag.NewFlagSet("scaler", pflag.ContinueOnError)
			options.BindFlags(fs)
			require.NoError(t, fs.Parse(tc.args))
			err := options.Validate()
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestFlagsReachTheirOptions(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	fs := pflag.NewFlagSet("scaler", pflag.ContinueOnError)
	options.BindFlags(fs)
	require.NoError(t, fs.Parse([]string{
		"--push-heartbeat=11s", "--grpc-address=127.0.0.1:0", "--wake-grace=1s",
		"--gateway-service=rouse-system/rouse-gateway", "--activator-grace=20s",
	}))
	require.Equal(t, 11*time.Second, options.Push.Heartbeat)
	require.Equal(t, "127.0.0.1:0", options.GRPCAddress)
	require.Equal(t, time.Second, options.Refresh.WakeGrace)
	require.Equal(t, HTTPOptions{
		GatewayService: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}, ActivatorGrace: 20 * time.Second,
	}, options.HTTP)
	for _, wrong := range []string{"rouse-gateway", "/rouse-gateway", "rouse-system/", "a/b/c"} {
		require.ErrorContains(t, fs.Parse([]string{"--gateway-service=" + wrong}), "is not namespace/name")
	}
}
