package function

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rouse-run/rouse/internal/kube"
)

func TestTheRemovalOfNetworkPoliciesWaitsForItsRightsAndGivesUpWithoutThem(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "networkpolicies"}, "", errors.New("no right"))
	unavailable := apierrors.NewServiceUnavailable("later")
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		answers []error // to the lists; the last one for ever
		lists   int
	}{
		"there are none":                 {[]error{nil}, 1},
		"the right comes":                {[]error{forbidden, forbidden, nil}, 3},
		"the right never comes":          {[]error{forbidden}, removalDenials},
		"the API server is away a while": {[]error{unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, nil}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := 0
			c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					answer := tc.answers[min(lists, len(tc.answers)-1)]
					lists++
					if answer != nil {
						return answer
					}
					return inner.List(ctx, list, options...)
				},
			}).Build()
			synctest.Test(t, func(t *testing.T) {
				require.NoError(t, (&policyRemover{reader: c, writer: c, log: logr.Discard()}).Start(t.Context()))
			})
			require.Equal(t, tc.lists, lists)
		})
	}
}
