package main

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
)

func TestControllersFlagSelectsTheControllers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		want    map[string]bool
		problem string
	}{
		"all by default": {[]string{"--builder-image=rouse"}, map[string]bool{functions: true, activators: true, apiRules: true, subscriptions: true}, ""},
		"Functions only": {[]string{"--controllers=functions", "--builder-image=rouse", "--nats-url="}, map[string]bool{functions: true, activators: false, subscriptions: false}, ""},
		"the others": {
			[]string{"--controllers=activators,apirules,subscriptions"}, map[string]bool{functions: false, activators: true, apiRules: true}, "",
		},
		"Functions without the builder image": {[]string{"--controllers=functions"}, nil, "--builder-image must be the image of Rouse"},
		"the others without NATS":             {[]string{"--controllers=subscriptions", "--nats-url="}, nil, "--nats-url"},
		"an unknown one":                      {[]string{"--controllers=function"}, nil, `--controllers must be of functions, activators, apirules, subscriptions, is "function"`},
		"none":                                {[]string{"--controllers="}, nil, "--controllers must not be empty"},
		"no lease":                            {[]string{"--leader-elect-lease="}, nil, "--leader-elect-lease must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, fs := defaultOptions(), pflag.NewFlagSet("controller", pflag.ContinueOnError)
			flags.Bind(fs, o)
			require.NoError(t, fs.Parse(tc.args))
			err := flags.Validate(o)
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

func slice(name, manager string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelManagedBy: manager},
	}}
}

func TestSlicesOfActivatorsAreDeletedUntilNoneIsLeftAndOthersStay(t *testing.T) {
	t.Parallel()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	again := true // a terminating controller may create another one
	objects := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(slice("price-rouse-ipv4", activation.ManagedBy), slice("price-x7k2p", "endpointslice-controller.k8s.io")).
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, inner client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				if again {
					again = false
					require.NoError(t, inner.Create(ctx, slice("price-rouse-ipv6", activation.ManagedBy)))
				}
				return inner.Delete(ctx, object, options...)
			},
		}).Build()
	require.NoError(t, deleteSlices(t.Context(), objects, logr.Discard()))
	left := &discoveryv1.EndpointSliceList{}
	require.NoError(t, objects.List(t.Context(), left))
	require.Len(t, left.Items, 1)
	require.Equal(t, "price-x7k2p", left.Items[0].Name)
}
