package kube

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func ownedService(uid types.UID, fields string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Labels:          map[string]string{"function": "price"},
		OwnerReferences: []metav1.OwnerReference{{UID: uid, Controller: new(true)}},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: string(FieldOwner), Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields)},
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate},
		},
	}}
}

func TestEqualManagedFieldsAreStoredOnce(t *testing.T) {
	t.Parallel()
	fields := func(uid types.UID) string {
		return fmt.Sprintf(`{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"%s\"}":{}}}}`, uid)
	}
	const one, other = "7a1f3b52-0000-4000-8000-000000000001", "7a1f3b52-0000-4000-8000-000000000002"
	a, b := ownedService(one, fields(one)), ownedService(other, fields(other))
	before := a.DeepCopy()
	Share(a)
	Share(b)
	require.Same(t, a.ManagedFields[0].FieldsV1, b.ManagedFields[0].FieldsV1)
	require.Equal(t, before.ManagedFields, managedFields(a), "the restored fields must be equal")
	require.Equal(t, before.Labels, a.Labels)
	require.Equal(t, ownedFields(before, FieldOwner), ownedFields(a, FieldOwner), "the hash must be equal")
	require.NotEqual(t, ownedFields(a, FieldOwner), ownedFields(b, FieldOwner))

	Share(a)
	require.Equal(t, before.ManagedFields, managedFields(a), "twice does no harm")

	stolen := ownedService(one, fields(other))
	Share(stolen)
	require.NotEqual(t, ownedFields(a, FieldOwner), ownedFields(stolen, FieldOwner), "the owner that is applied is not the controller")
	none := ownedService("", fields(one))
	none.OwnerReferences = nil
	Share(none)
	require.Equal(t, fields(one), managedFields(none)[0].FieldsV1.String())
}

func TestEqualTextsAreStoredOnce(t *testing.T) {
	t.Parallel()
	read := func() *corev1.Service { // like a decoded response, whose texts have memory of their own
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Name: "price", Namespace: strings.Clone("shop"), Labels: map[string]string{strings.Clone("function"): strings.Clone("price")},
		}}
	}
	one, other := read(), read()
	require.NotSame(t, unsafe.StringData(one.Namespace), unsafe.StringData(other.Namespace))
	ShareTexts(one)
	ShareTexts(other)
	require.Equal(t, read(), one, "the object must not change")
	require.Same(t, unsafe.StringData(one.Namespace), unsafe.StringData(other.Namespace))
	require.Same(t, unsafe.StringData(one.Labels["function"]), unsafe.StringData(other.Labels["function"]))

	reason, again := strings.Clone("DeploymentReady"), strings.Clone("DeploymentReady")
	ShareText(&reason)
	ShareText(&again)
	require.Equal(t, "DeploymentReady", reason)
	require.Same(t, unsafe.StringData(reason), unsafe.StringData(again))
}

// Tenants create sets of their own by writing fields of their objects.
func TestSharedSetsAreBounded(t *testing.T) {
	t.Parallel()
	for i := range 3 * maxSharedBytes / maxSetBytes {
		Share(ownedService("u", fmt.Sprintf(`{"f:%0*d":{}}`, maxSetBytes/2, i)))
		Share(ownedService("u", fmt.Sprintf(`{"f:%0*d":{}}`, maxSetBytes, i)))
	}
	sharedFields.Lock()
	defer sharedFields.Unlock()
	held := 0
	for text := range sharedFields.byText {
		held += len(text)
		require.LessOrEqual(t, len(text), maxSetBytes)
	}
	require.LessOrEqual(t, held, maxSharedBytes)
}

func TestSharedManagedFieldsAreComparedAndReclaimedLikeOthers(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	const uid = "7a1f3b52-0000-4000-8000-000000000003"
	desired := desiredConfigMap(t, "a")
	desired.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Function", Name: "price", UID: uid, Controller: new(true)}})
	cached := func() *corev1.ConfigMap {
		live := liveConfigMap(t, c)
		Share(live)
		return live
	}
	applier := NewApplier(c)
	_, err := applier.Apply(t.Context(), desired, nil, Exclusive{"data"})
	require.NoError(t, err)
	for _, each := range []*Applier{applier, NewApplier(c)} {
		result, err := each.Apply(t.Context(), desired, cached(), Exclusive{"data"})
		require.NoError(t, err)
		require.Nil(t, result)
	}
	changed := liveConfigMap(t, c)
	changed.Data["added"] = "theirs"
	require.NoError(t, c.Update(t.Context(), changed, client.FieldOwner("somebody")))
	result, err := applier.Apply(t.Context(), desired, cached(), Exclusive{"data"})
	require.NoError(t, err)
	require.NotNil(t, result)
	require.Equal(t, map[string]string{"key": "a"}, liveConfigMap(t, c).Data)
	require.Contains(t, appliedEntry(liveConfigMap(t, c).ManagedFields, FieldOwner).FieldsV1.String(), uid)
}
