package subscription

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

func TestLeavingReleasesSubscriptionsAndThoseThatAreBeingDeletedGo(t *testing.T) {
	t.Parallel()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	now := metav1.Now()
	kept := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kept", Finalizers: []string{eventingv1alpha2.Finalizer}}}
	deleted := kept.DeepCopy()
	deleted.Name, deleted.DeletionTimestamp = "deleted", &now
	conflicted := false // someone else writes in between
	objects := fake.NewClientBuilder().WithScheme(scheme).WithObjects(kept, deleted).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, inner client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if !conflicted {
				conflicted = true
				return apierrors.NewConflict(schema.GroupResource{Resource: "subscriptions"}, object.GetName(), nil)
			}
			return inner.Patch(ctx, object, patch, options...)
		},
	}).Build()
	require.NoError(t, Leave(t.Context(), objects))
	left := &eventingv1alpha2.SubscriptionList{}
	require.NoError(t, objects.List(t.Context(), left))
	require.Len(t, left.Items, 1)
	require.Equal(t, "kept", left.Items[0].Name)
	require.Empty(t, left.Items[0].Finalizers)
}

func TestAClusterWithoutSubscriptionsIsLeft(t *testing.T) {
	t.Parallel()
	objects := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Subscription"}}
		},
	})
	require.NoError(t, Leave(t.Context(), objects))
}
