package framework

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// EntranceSecret is the Secret of which the local cluster's release serves the certificate.
const EntranceSecret = "entrance-tls"

// EntranceCertificate makes a certificate of the gateways, unless there is one. Kubelet brings it to them within a minute or two.
func (c *Cluster) EntranceCertificate(ctx context.Context) error {
	pair, err := loopback.MakeClient("entrance", nil)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	err = c.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: System, Name: EntranceSecret}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Secret %s: %w", EntranceSecret, err)
	}
	return nil
}
