package subscription

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/door"
)

func signing(spec *eventingv1alpha2.SubscriptionSpec) {
	spec.Delivery = &eventingv1alpha2.Delivery{Webhook: &eventingv1alpha2.Webhook{SecretName: "partner"}}
}

// awaitProblem waits until the first condition says what is wrong.
func (w *fixture) awaitProblem(sub *eventingv1alpha2.Subscription, says string) {
	w.t.Helper()
	w.awaitStatus(sub, says, func(status eventingv1alpha2.SubscriptionStatus) bool {
		return !status.Ready && len(status.Conditions) > 0 && strings.Contains(status.Conditions[0].Message, says)
	})
}

// These run one after the other, like all tests with controllers.

func TestASubscriptionThatSignsIsReadyOnceBridgesHaveItsKeys(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	sub := w.create("partner", signing)
	w.awaitProblem(sub, "Secret partner: the Secret is missing or has no key current")
	key := []byte("whsec_" + strings.Repeat("A", 32))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "partner"}, Data: map[string][]byte{"current": []byte("hush")}}
	require.NoError(t, w.Create(t.Context(), secret))
	w.awaitProblem(sub, "must be whsec_ and the base64 of 24 to 64 bytes")
	secret.Data["current"] = key
	require.NoError(t, w.Update(t.Context(), secret))
	w.awaitReady(sub)
	ring := &corev1.Secret{}
	require.NoError(t, w.Get(t.Context(), w.keys, ring))
	require.Equal(t, map[string][]byte{door.KeyName(sub, door.KeyCurrent): key}, ring.Data)

	require.NoError(t, w.Delete(t.Context(), secret))
	w.awaitProblem(sub, "the Secret is missing")
	require.NoError(t, w.Get(t.Context(), w.keys, ring))
	require.Empty(t, ring.Data, "bridges sign by no key that its owner has taken away")
}

func TestASubscriptionCannotSignWithoutAKeyring(t *testing.T) {
	w := newFixture(t, func(o *Options) { o.Keyring = nil })
	w.createSink()
	w.awaitProblem(w.create("partner", signing), "doors.enabled")
}
