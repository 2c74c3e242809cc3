package scaler

import (
	"maps"
	"math"
	"testing"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

func TestInvalidMetadataIsRefusedWithAdvice(t *testing.T) {
	t.Parallel()
	shopOrder := types.NamespacedName{Namespace: "shop", Name: "order"}
	tests := map[string]struct {
		namespace string
		metadata  map[string]string

		want    request
		wantErr string
	}{
		"the function is that of the object's name when not given": {
			want: request{target: target{function: types.NamespacedName{Namespace: "shop", Name: "scaled"}}},
		},
		"everything is given": {
			metadata: map[string]string{"function": "order", "lagThreshold": "2.5", "activationLagThreshold": "3"},
			want:     request{target: target{function: shopOrder, activation: 3}, lagThreshold: 2.5},
		},
		"the Service of a workload": {
			metadata: map[string]string{"service": "order"},
			want:     request{target: target{function: shopOrder}},
		},
		"a Function and its Service": {
			metadata: map[string]string{"function": "order", "service": "order"},
			want:     request{target: target{function: shopOrder}},
		},
		"a Function and another Service": {
			metadata: map[string]string{"function": "order", "service": "bill"},
			wantErr:  `metadata function is "order" and service is "bill": remove one of them`,
		},
		"a Service of another namespace cannot be named": {
			metadata: map[string]string{"service": "bank/order"},
			wantErr:  `metadata service "bank/order" must be the name of a Service in namespace "shop"`,
		},
		"keys of KEDA's own are passed over": {
			metadata: map[string]string{"function": "order", "scalerAddress": "x:9000", "enableTLS": "true"},
			want:     request{target: target{function: shopOrder}},
		},
		"a namespace is missing": {
			namespace: "-",
			wantErr:   "the ScaledObject's name and namespace are missing",
		},
		"the lag threshold is no number": {
			metadata: map[string]string{"lagThreshold": "abc"},
			wantErr:  `metadata lagThreshold is "abc": set it to a number from 0.001, the backlog that one replica is meant to carry, or remove it`,
		},
		"the lag threshold is 0": {
			metadata: map[string]string{"lagThreshold": "0"},
			wantErr:  `metadata lagThreshold is "0": set it to a number from 0.001`,
		},
		"the lag threshold is negative": {
			metadata: map[string]string{"lagThreshold": "-1"},
			wantErr:  `metadata lagThreshold is "-1"`,
		},
		"the lag threshold is empty": {
			metadata: map[string]string{"lagThreshold": ""},
			wantErr:  `metadata lagThreshold is ""`,
		},
		"the lag threshold is not finite": {
			metadata: map[string]string{"lagThreshold": "NaN"},
			wantErr:  `metadata lagThreshold is "NaN"`,
		},
		"the lag threshold is past all measure": {
			metadata: map[string]string{"lagThreshold": "1e300"},
			wantErr:  `metadata lagThreshold is "1e300"`,
		},
		"calls over HTTP count": {
			metadata: map[string]string{"function": "order", "httpConcurrency": "50"},
			want:     request{target: target{function: shopOrder, http: httpEverywhere}, httpConcurrency: 50},
		},
		"calls over HTTP count where pods can be asked": {
			metadata: map[string]string{"function": "order", "httpConcurrency": "1000000", "httpCounted": "true"},
			want:     request{target: target{function: shopOrder, http: httpEverywhere}, httpConcurrency: 1000000},
		},
		"calls over HTTP count at gateways alone": {
			metadata: map[string]string{"function": "order", "httpConcurrency": "1", "httpCounted": "false"},
			want:     request{target: target{function: shopOrder, http: httpAtGateways}, httpConcurrency: 1},
		},
		"without a concurrency HTTP counts nothing": {
			metadata: map[string]string{"function": "order", "httpCounted": "true"},
			want:     request{target: target{function: shopOrder}},
		},
		"the concurrency is below one": {
			metadata: map[string]string{"httpConcurrency": "0.5"},
			wantErr: `metadata httpConcurrency is "0.5": set it to a number from 1 to 1000000, ` +
				`the calls at a time that one replica is meant to carry, or remove it`,
		},
		"the concurrency is above a million": {
			metadata: map[string]string{"httpConcurrency": "1000001"},
			wantErr:  `metadata httpConcurrency is "1000001": set it to a number from 1 to 1000000`,
		},
		"whether pods can be asked is neither true nor false": {
			metadata: map[string]string{"httpCounted": "no"},
			wantErr:  `metadata httpCounted is "no": set it to true or false, whether pods can be asked for their calls, or remove it`,
		},
		"the activation threshold is negative": {
			metadata: map[string]string{"activationLagThreshold": "-0.5"},
			wantErr:  `metadata activationLagThreshold is "-0.5": set it to a number from 0`,
		},
		"a function of another namespace cannot be named": {
			metadata: map[string]string{"function": "bank/order"},
			wantErr:  `metadata function "bank/order" must be the name of a Function in namespace "shop"`,
		},
		"an overlong name is cut in the message": {
			metadata: map[string]string{"function": string(make([]byte, 4000))},
			wantErr:  `...`,
		},
		"a namespace in the metadata is refused": {
			metadata: map[string]string{"namespace": "bank"},
			wantErr:  `metadata namespace is not accepted: the backlog is that of the Function's Subscriptions in namespace "shop"; remove it`,
		},
		"a consumer in the metadata is refused": {
			metadata: map[string]string{"consumer": "0123"},
			wantErr:  "metadata consumer is not accepted",
		},
		"a stream in the metadata is refused": {
			metadata: map[string]string{"stream": "sap"},
			wantErr:  "metadata stream is not accepted",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := &pb.ScaledObjectRef{Name: "scaled", Namespace: "shop", ScalerMetadata: maps.Clone(tc.metadata)}
			if tc.namespace == "-" {
				ref.Namespace = ""
			}
			got, err := parseRequest(ref)
			if tc.wantErr == "" {
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
				return
			}
			require.Equal(t, codes.InvalidArgument, status.Code(err))
			require.Contains(t, status.Convert(err).Message(), tc.wantErr)
			require.Less(t, len(status.Convert(err).Message()), 800)
		})
	}
}

func TestSpecIsNeverZeroInEitherForm(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		size    float64
		wantInt int64
	}{
		"a whole number":   {size: 10, wantInt: 10},
		"a fraction":       {size: 2.5, wantInt: 3},
		"below one":        {size: 0.001, wantInt: 1},
		"the largest size": {size: math.MaxInt32, wantInt: math.MaxInt32},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := metricSpec(MetricName, tc.size)
			require.InDelta(t, tc.size, spec.GetTargetSizeFloat(), 0)
			require.Equal(t, tc.wantInt, spec.GetTargetSize())
			require.Regexp(t, "^[a-z0-9-]+$", spec.GetMetricName())
		})
	}
}

func FuzzMetadataNeverBreaksOut(f *testing.F) {
	f.Add("order", "10", "0", "50")
	f.Add("../order", "abc", "-1", "0")
	f.Add("bank/order", "NaN", "Inf", "1e300")
	f.Fuzz(func(t *testing.T, function, lag, activation, concurrency string) {
		got, err := parseRequest(&pb.ScaledObjectRef{Name: "scaled", Namespace: "shop", ScalerMetadata: map[string]string{
			"function": function, "lagThreshold": lag, "activationLagThreshold": activation, "httpConcurrency": concurrency,
		}})
		if err != nil {
			require.Equal(t, codes.InvalidArgument, status.Code(err))
			return
		}
		require.Equal(t, types.NamespacedName{Namespace: "shop", Name: function}, got.function)
		require.NotContains(t, function, "/")
		require.GreaterOrEqual(t, got.lagThreshold, smallestLagThreshold)
		require.GreaterOrEqual(t, got.activation, 0.0)
		require.GreaterOrEqual(t, got.httpConcurrency, 1.0)
	})
}
