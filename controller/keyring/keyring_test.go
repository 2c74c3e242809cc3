package keyring

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestKeysThatNobodyNeedsAreTakenOut(t *testing.T) {
	t.Parallel()
	environment := cluster.Environment(t)
	namespace := environment.Namespace(t)
	name := types.NamespacedName{Namespace: namespace, Name: "rouse-doors"}
	ring := &Keyring{client: environment.Client, live: environment.Client, name: name}
	require.NoError(t, environment.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name.Name}}))
	opened := &v1alpha1.Door{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "github"},
		Spec: v1alpha1.DoorSpec{
			Gateway: "kyma-system/kyma-gateway", Host: "hooks", Path: "/github",
			Webhook: &v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitHub, SecretName: "github"},
		},
	}
	signing := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "partner"},
		Spec: eventingv1alpha2.SubscriptionSpec{
			Sink: "http://price." + namespace + ".svc.cluster.local", Source: "shop", Types: []string{"order.placed.v1"},
			Delivery: &eventingv1alpha2.Delivery{Webhook: &eventingv1alpha2.Webhook{SecretName: "partner"}},
		},
	}
	keys := &door.Keys{Current: []byte("new"), Previous: []byte("old")}
	held := func() map[string][]byte {
		found := &corev1.Secret{}
		require.NoError(t, environment.Client.Get(t.Context(), name, found))
		return found.Data
	}
	require.NoError(t, environment.Client.Create(t.Context(), opened))
	require.NoError(t, environment.Client.Create(t.Context(), signing))
	unkept, err := ring.Keep(t.Context(), opened, "github", keys)
	require.NoError(t, err)
	require.Empty(t, unkept)
	_, err = ring.Keep(t.Context(), signing, "partner", &door.Keys{Current: []byte("new")})
	require.NoError(t, err)
	want := map[string][]byte{
		door.KeyName(opened, "current"): []byte("new"), door.KeyName(opened, "previous"): []byte("old"), door.KeyName(signing, "current"): []byte("new"),
	}
	require.NoError(t, ring.sweep(t.Context()))
	require.Equal(t, want, held())

	require.NoError(t, environment.Client.Delete(t.Context(), opened))
	signing.Spec.Delivery = nil
	require.NoError(t, environment.Client.Update(t.Context(), signing))
	require.NoError(t, ring.sweep(t.Context()))
	require.Empty(t, held())
}

func TestTheKeysOfANamespaceLeaveRoomForThoseOfOthers(t *testing.T) {
	t.Parallel()
	environment := cluster.Environment(t)
	namespace := environment.Namespace(t)
	ring := &Keyring{client: environment.Client, live: environment.Client, name: types.NamespacedName{Namespace: namespace, Name: "rouse-doors"}}
	require.NoError(t, environment.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rouse-doors"}}))
	of := func(owner string, i int) *v1alpha1.Door {
		return &v1alpha1.Door{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner, Name: "d", UID: types.UID(owner + strings.Repeat("x", i))},
			Spec:       v1alpha1.DoorSpec{Key: &v1alpha1.DoorKey{SecretName: "keys"}},
		}
	}
	long := &door.Keys{Current: []byte(strings.Repeat("k", mostKey)), Previous: []byte(strings.Repeat("p", mostKey))}
	unkept := ""
	for i := 0; unkept == ""; i++ {
		var err error
		unkept, err = ring.Keep(t.Context(), of("flood", i), "keys", long)
		require.NoError(t, err)
		require.Less(t, i, mostKeys/mostKey/2, "a namespace fills the Secret")
	}
	require.Contains(t, unkept, "may not be more than it leaves to others")
	kept, err := ring.Keep(t.Context(), of("quiet", 1), "keys", long)
	require.NoError(t, err)
	require.Empty(t, kept)
	tooLong := &door.Keys{Current: []byte(strings.Repeat("k", mostKey+1))}
	unkept, err = ring.Keep(t.Context(), of("quiet", 2), "keys", tooLong)
	require.NoError(t, err)
	require.Contains(t, unkept, "at most 4096 fit")
}

func TestAnErrorAboutKeysHasNoneOfThem(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Secret is invalid", scrubbed(errors.New("Secret is invalid: data: c2VjcmV0")).Error())
}
