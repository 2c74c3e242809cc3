package serverless

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/serverless/resources"
)

func TestAServerlessWaitsForTheLastFunctionAndItsControllerStays(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))
	fn := f.function()
	require.NoError(t, f.Delete(t.Context(), one))
	status := f.status(f.namespace, hasState(operatorv1alpha1.StateWarning))
	require.Equal(t, []string{"Deleted False DeletionErr found 1 items with VersionKind serverless.kyma-project.io/v1alpha2: " +
		"delete these Functions first, kubectl get functions -A lists them"}, shown(status.Conditions, "Deleted"))

	live := f.deployment(exists)
	require.NoError(t, f.Delete(t.Context(), live.DeepCopy()))
	f.deployment(func(d *appsv1.Deployment) bool { return d.UID != live.UID })

	require.NoError(t, f.Delete(t.Context(), fn))
	f.until(func(ctx context.Context) bool {
		f.collect(ctx, f.namespace)
		return apierrors.IsNotFound(f.Get(ctx, client.ObjectKeyFromObject(one), &operatorv1alpha1.Serverless{}))
	}, "it goes")
	require.NoError(t, f.List(t.Context(), &serverlessv1alpha2.FunctionList{}), "the CRD of Functions stays")
}

func TestAServerlessWithoutItsFinalizerLeavesNothing(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))
	fn := f.function()
	t.Cleanup(func() { require.NoError(t, f.Delete(context.Background(), fn)) })
	require.NoError(t, f.Delete(t.Context(), one))
	f.status(f.namespace, hasState(operatorv1alpha1.StateWarning))
	require.NoError(t, f.Patch(t.Context(), one, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	f.until(func(ctx context.Context) bool {
		f.collect(ctx, f.namespace)
		for _, part := range resources.Parts(f.namespace, f.installation) {
			if !apierrors.IsNotFound(f.Get(ctx, part.Key, metadataOf(part.Kind))) {
				return false
			}
		}
		return true
	}, "its parts go")
}

func TestALockThatItsHolderHasMadeAgainGoesToo(t *testing.T) {
	f := newFixture(t)
	f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
	lock := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: resources.LeaseName}}
	require.NoError(t, f.Delete(t.Context(), lock.DeepCopy()))
	require.NoError(t, f.Create(t.Context(), lock, client.FieldOwner("holder")))
	require.NoError(t, f.Delete(t.Context(), one))
	f.until(func(ctx context.Context) bool {
		f.collect(ctx, f.namespace)
		return apierrors.IsNotFound(f.Get(ctx, client.ObjectKeyFromObject(one), &operatorv1alpha1.Serverless{}))
	}, "it goes")
	require.True(t, apierrors.IsNotFound(f.Get(t.Context(), client.ObjectKeyFromObject(lock), lock)))
}

func TestLeavingTakesThePartsAwayAndLeavesTheServerless(t *testing.T) {
	f := newFixture(t)
	stop := f.start()
	one := f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.rollOut()
	f.status(f.namespace, hasState(operatorv1alpha1.StateReady))
	stop()
	left := make(chan error, 1)
	go func() { left <- Leave(context.Background(), f.Client, f.installation.Binding) }()
	require.Eventually(t, func() bool {
		f.collect(t.Context(), f.namespace)
		select {
		case err := <-left:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	}, timeout, soon)
	for _, part := range resources.Parts(f.namespace, f.installation) {
		require.True(t, apierrors.IsNotFound(f.Get(t.Context(), part.Key, metadataOf(part.Kind))), "%s %s", part.Kind.Kind, part.Key)
	}
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(one), one))
	require.Empty(t, one.Finalizers)
}

func TestOneThatIsNotServedGoesWithTheFinalizerOfABackup(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.create(f.namespace, operatorv1alpha1.ServerlessSpec{})
	f.status(f.namespace, hasState(operatorv1alpha1.StateProcessing))
	fn := f.function()
	other := cluster.Environment(t).Namespace(t)
	second := &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{
		Namespace: other, Name: "default", Finalizers: []string{operatorv1alpha1.Finalizer},
	}}
	require.NoError(t, f.Create(t.Context(), second))
	f.status(other, hasState(operatorv1alpha1.StateWarning))
	require.NoError(t, f.Delete(t.Context(), second))
	f.until(func(ctx context.Context) bool {
		return apierrors.IsNotFound(f.Get(ctx, client.ObjectKeyFromObject(second), &operatorv1alpha1.Serverless{}))
	}, "it waits for no Function")
	for _, part := range resources.Parts(f.namespace, f.installation) {
		require.NoError(t, f.Get(t.Context(), part.Key, metadataOf(part.Kind)), "those of the one that is served stay")
	}
	require.NoError(t, f.Delete(t.Context(), fn))
}
