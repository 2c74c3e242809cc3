//go:build e2e

package scalertls

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	host    = "rouse-scaler." + framework.System + ".svc.cluster.local"
	secrets = "rotating" // the Secrets' name, in both namespaces
)

func TestKEDAAsksTheScalerOverTLSWithCertificatesThatRotate(t *testing.T) {
	cluster, err := framework.Connect()
	require.NoError(t, err)
	namespace := cluster.TestNamespace(t, "tls")
	authority := newAuthority(t)
	authority.store(t, cluster, framework.System, host)
	authority.store(t, cluster, "keda", "keda")
	ctx := context.WithoutCancel(t.Context()) // a release is never left half upgraded
	t.Cleanup(func() {
		require.NoError(t, cluster.SetChartValues(ctx, "scaler.tls.enabled=false", "scaler.tls.secret=", "scaler.tls.kedaSecret="))
	})
	require.NoError(t, cluster.SetChartValues(ctx, "scaler.tls.enabled=true", "scaler.tls.secret="+secrets, "scaler.tls.kedaSecret="+secrets))

	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.Function{
		Name: "secured", Runtime: "nodejs22", Max: 1, Asleep: true, Annotations: framework.Fast(), Source: framework.ReportingHandler(""),
	}.YAML()+"---\n"+framework.Subscription{Name: "secured", Namespace: namespace, Type: "tls.wake.v1", Sink: "secured"}.YAML()))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "secured"))
	wake(t, cluster, namespace, "first")

	for name, transport := range map[string]credentials.TransportCredentials{
		"without TLS":           insecure.NewCredentials(),
		"without a certificate": credentials.NewTLS(&tls.Config{RootCAs: authority.pool(), ServerName: host, MinVersion: tls.VersionTLS12}),
		"with a certificate of another authority": credentials.NewTLS(&tls.Config{
			RootCAs: authority.pool(), ServerName: host, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{newAuthority(t).issue(t, "keda")},
		}),
	} {
		require.Error(t, ask(t, cluster, transport), name)
	}
	require.NoError(t, ask(t, cluster, authority.credentials(t)), "KEDA's kind of caller is answered")

	gaps, before := streamGaps(t, cluster), serial(t, cluster, authority)
	authority.store(t, cluster, framework.System, host)
	require.NoError(t, framework.Await(t.Context(), 4*time.Minute, "the scaler to serve the new certificate", func(context.Context) (bool, error) {
		return serial(t, cluster, authority).Cmp(before) != 0, nil
	}))
	wake(t, cluster, namespace, "rotated")
	require.Equal(t, gaps, streamGaps(t, cluster), "a stream broke")

	authority.store(t, cluster, "keda", "keda")
	require.NoError(t, cluster.Without(t.Context(), "keda", "keda-operator", func() error { return nil })) // it reads the Secret again
	wake(t, cluster, namespace, "restarted")
}

// wake publishes an event for the sleeping Function, and waits until it has been handled by a pod that KEDA has wanted: a
// controller that woke it in KEDA's place would say so.
func wake(t *testing.T, cluster *framework.Cluster, namespace, key string) {
	t.Helper()
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "secured", 0, 2*time.Minute))
	require.NoError(t, cluster.Publish(t.Context(), framework.Event{ID: namespace + key, Type: "tls.wake.v1", Data: map[string]string{"key": key}}))
	_, err := cluster.AwaitLedger(t.Context(), namespace, []string{key}, time.Minute)
	require.NoError(t, err)
	events := &corev1.EventList{}
	require.NoError(t, cluster.List(t.Context(), events, client.InNamespace(namespace)))
	for _, event := range events.Items {
		require.NotEqual(t, "KEDALate", event.Reason, event.Message)
	}
}

// forward forwards the port of a scaler.
func forward(t *testing.T, cluster *framework.Cluster, port int) (address string) {
	t.Helper()
	pods, err := cluster.PodsOf(t.Context(), "scaler")
	require.NoError(t, err)
	local, err := cluster.Forward(t.Context(), &pods[0], port)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", local)
}

func ask(t *testing.T, cluster *framework.Cluster, transport credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient(forward(t, cluster, 9000), grpc.WithTransportCredentials(transport))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = pb.NewExternalScalerClient(conn).GetMetricSpec(ctx, &pb.ScaledObjectRef{Name: "x", Namespace: "x"})
	return err
}

// serial is that of the certificate that a scaler serves to a new connection.
func serial(t *testing.T, cluster *framework.Cluster, authority *authority) *big.Int {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authority.pool(), ServerName: host, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(t.Context(), "tcp", forward(t, cluster, 9000))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber
}

// streamGaps counts the times that a Function had no stream, over all scalers.
func streamGaps(t *testing.T, cluster *framework.Cluster) (gaps int) {
	t.Helper()
	pods, err := cluster.PodsOf(t.Context(), "scaler")
	require.NoError(t, err)
	for i := range pods {
		port, err := cluster.Forward(t.Context(), &pods[i], 9090)
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		found := false
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if text, is := strings.CutPrefix(lines.Text(), "rouse_scaler_stream_gap_seconds_count "); is {
				count, err := strconv.Atoi(text)
				require.NoError(t, err)
				gaps, found = gaps+count, true
			}
		}
		require.NoError(t, response.Body.Close())
		require.True(t, found, "the scaler counts no gaps")
	}
	return gaps
}

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	made := sign(t, template, nil)
	key, _ := made.PrivateKey.(*ecdsa.PrivateKey)
	certificate, err := x509.ParseCertificate(made.Certificate[0])
	require.NoError(t, err)
	return &authority{certificate, key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue returns a new certificate for a name, as server and client.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	return sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
}

func (a *authority) credentials(t *testing.T) credentials.TransportCredentials {
	t.Helper()
	return credentials.NewTLS(&tls.Config{
		RootCAs: a.pool(), ServerName: host, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.issue(t, "keda")},
	})
}

// store writes the Secret of a namespace with a new certificate, and deletes it after the test.
func (a *authority) store(t *testing.T, cluster *framework.Cluster, namespace, name string) {
	t.Helper()
	issued := a.issue(t, name)
	key, _ := issued.PrivateKey.(*ecdsa.PrivateKey)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secrets}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			"ca.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}),
			"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued.Certificate[0]}),
			"tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		},
	}
	err = cluster.Create(t.Context(), secret)
	if client.IgnoreAlreadyExists(err) == nil && err != nil {
		require.NoError(t, cluster.Update(t.Context(), secret))
		return
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := cluster.Delete(context.WithoutCancel(t.Context()), secret); client.IgnoreNotFound(err) != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
		}
	})
}

// sign signs with an authority, or with the new key for the authority's own certificate.
func sign(t *testing.T, template *x509.Certificate, by *authority) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
