package door

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

func TestASignerSignsAsTheSpecificationOfStandardWebhooksDoes(t *testing.T) {
	t.Parallel()
	v := vectors["Standard Webhooks, from its specification"]
	signer, err := NewSigner(&Keys{Current: []byte(v.secret + "\n")})
	require.NoError(t, err)
	signed := http.Header{"Content-Type": {jsonType}}
	signer.Sign(signed, v.id, time.Unix(v.at, 0), []byte(v.body))
	require.Equal(t, v.header, signed)
}

func TestAReceiverThatKnowsEitherKeyTakesWhatBothHaveSigned(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	shared := "whsec_" + strings.Repeat("A", 32)
	publicKey := "whpk_" + base64.StdEncoding.EncodeToString(public)
	for _, text := range []string{
		"whsk_" + base64.StdEncoding.EncodeToString(private),
		"whsk_" + base64.StdEncoding.EncodeToString(private.Seed()),
	} {
		signer, err := NewSigner(&Keys{Current: []byte(text), Previous: []byte(shared)})
		require.NoError(t, err)
		body, at := []byte(`{"type":"order.placed"}`), time.Unix(1792000000, 0)
		signed := http.Header{}
		signer.Sign(signed, "evt_1", at, body)
		for _, known := range []string{shared, publicKey} {
			receiver := (&vector{spec: v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeStandardWebhooks}}).open(t, Keys{Current: []byte(known)})
			verified, err := receiver.Verify(&Request{Header: signed, Body: body}, at)
			require.NoError(t, err, known)
			require.Equal(t, "evt_1", verified.ID)
		}
	}
}

func TestAKeyThatCannotSignIsRefusedWithItsForm(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a public key":        "whpk_" + strings.Repeat("A", 43) + "=",
		"too short":           "whsec_AAAA",
		"no base64":           "whsec_" + strings.Repeat("!", 32),
		"a short private key": "whsk_AAAA",
	} {
		_, err := NewSigner(&Keys{Current: []byte(text)})
		require.ErrorContains(t, err, "key current of the Secret must be whsec_ and the base64 of 24 to 64 bytes, or whsk_", name)
		require.NotContains(t, err.Error(), text, name)
	}
	_, err := NewSigner(&Keys{Previous: []byte("whsec_" + strings.Repeat("A", 32))})
	require.ErrorIs(t, err, ErrNoSecret)
	_, err = NewSigner(nil)
	require.ErrorIs(t, err, ErrNoSecret)
}
