//go:build e2e

package features

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

var doorKind = schema.GroupVersionKind{Group: "rouse.run", Version: "v1alpha1", Kind: "Door"}

func awaitDoor(t *testing.T, cluster *framework.Cluster, namespace, name, reason string) {
	t.Helper()
	err := framework.Await(t.Context(), 3*time.Minute, "Door "+name+" to be "+reason, func(ctx context.Context) (bool, error) {
		conditions, err := cluster.Conditions(ctx, namespace, doorKind, name)
		if got := conditions["Ready"]; err == nil && got.Reason != reason {
			err = fmt.Errorf("is %s (%s): %s", got.Status, got.Reason, got.Message)
		}
		return err == nil, err
	})
	require.NoError(t, err)
}

// outside is a sender outside of the cluster.
type outside struct {
	client *http.Client
	url    string
	host   string
}

// newOutside reaches a gateway by a forwarded port, by TLS with a client certificate if there is a config.
func newOutside(t *testing.T, cluster *framework.Cluster, host string, secured *tls.Config) *outside {
	t.Helper()
	gateways, err := cluster.PodsOf(t.Context(), "gateway")
	require.NoError(t, err)
	scheme, port := "http", 8080
	if secured != nil {
		scheme, port = "https", 8443
	}
	local, err := cluster.Forward(t.Context(), &gateways[0], port)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: secured}
	t.Cleanup(transport.CloseIdleConnections)
	return &outside{&http.Client{Transport: transport, Timeout: 30 * time.Second}, fmt.Sprintf("%s://127.0.0.1:%d", scheme, local), host}
}

func (o *outside) post(t *testing.T, path string, header http.Header, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Host, request.Header = o.host, header
	answer, err := o.client.Do(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

func githubDelivery(key, id, body string) http.Header {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(mac, body)
	return http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "X-Github-Delivery": {id},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
}

func TestAWebhookOfGitHubWakesAFunctionOnceAndTellsItsOwnerOfStrangers(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "github.push", framework.Function{Name: "push", Max: 1, Source: framework.ReportingHandler("")})
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, fmt.Sprintf(`
apiVersion: rouse.run/v1alpha1
kind: Door
metadata: {name: github}
spec:
  gateway: %s
  host: %s
  path: /hooks/github
  source: %s
  webhook: {scheme: GitHub, secretName: github, event: {subject: data.key}}
`, framework.OwnGateway, namespace, framework.Source)))
	awaitDoor(t, cluster, namespace, "github", "SecretMissing")
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, `
apiVersion: v1
kind: Secret
metadata: {name: github}
stringData: {current: "a new secret", previous: "an old secret"}
`))
	awaitDoor(t, cluster, namespace, "github", "Open")
	sender := newOutside(t, cluster, namespace+"."+framework.OwnDomain, nil)
	const path = "/hooks/github"
	body := fmt.Sprintf(`{"key":%q}`, namespace)
	for range 3 { // GitHub lost the answer
		status, text := sender.post(t, path, githubDelivery("an old secret", "delivery-1", body), body)
		require.Equal(t, http.StatusNoContent, status, text)
	}
	status, text := sender.post(t, path, githubDelivery("a guess", "delivery-2", body), body)
	require.Equal(t, http.StatusUnauthorized, status)
	require.NotContains(t, text, "signature", "a stranger is told nothing")
	forged := githubDelivery("a guess", "delivery-2", body)
	forged.Set("Rouse-Door", namespace+"/github")
	forged.Set("Rouse-Door-Token", "guess")
	status, _ = sender.post(t, "/other", forged, body)
	require.Equal(t, http.StatusNotFound, status)

	entries, err := cluster.AwaitLedger(t.Context(), namespace, []string{namespace}, 2*time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, entries[namespace].Count)
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(doorKind)
	err = framework.Await(t.Context(), 3*time.Minute, "the status to tell of requests", func(ctx context.Context) (bool, error) {
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "github"}, found); err != nil {
			return false, err
		}
		reason, _, _ := unstructured.NestedString(found.Object, "status", "lastRefused", "reason")
		key, _, _ := unstructured.NestedString(found.Object, "status", "lastKey", "name")
		if !strings.Contains(reason, "signature") || key != "previous" {
			return false, fmt.Errorf("refused because %q, by key %q", reason, key)
		}
		return true, nil
	})
	require.NoError(t, err)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "push", 0, asleep))
}

func TestADoorOfAnotherNamespaceGetsNoHostOfAnAPIRuleOrADoor(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	_, other := connect(t)
	door := func(host string) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {current: "hush"}
---
apiVersion: rouse.run/v1alpha1
kind: Door
metadata: {name: orders}
spec: {gateway: %s, host: %s, cloudEvents: {}, key: {secretName: key}}
`, framework.OwnGateway, host)
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, door(namespace)))
	awaitDoor(t, cluster, namespace, "orders", "Open")
	time.Sleep(time.Second) // the older one has the host, and times of creation are whole seconds
	require.NoError(t, cluster.ApplyYAML(t.Context(), other, door(namespace)))
	awaitDoor(t, cluster, other, "orders", "NotExposed")
}

// applicationCertificate signs a request for a certificate, as an authority such as cert-manager's does, and returns the authority in
// PEM with a client's config.
func applicationCertificate(t *testing.T, name string) (authority string, config *tls.Config) {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		return made
	}
	signing := key()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "applications"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &signing.PublicKey, signing)
	require.NoError(t, err)
	own := key()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, own)
	require.NoError(t, err)
	request, err := x509.ParseCertificateRequest(der)
	require.NoError(t, err)
	require.NoError(t, request.CheckSignature())
	issued, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: request.Subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, root, request.PublicKey, signing)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})), &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{issued}, PrivateKey: own}},
	}
}

func TestAnApplicationWithACertificateSendsLegacyEventsToASleepingFunction(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	require.NoError(t, cluster.EntranceCertificate(t.Context()))
	app := "app-" + namespace
	sleeper(t, cluster, namespace, "order.created.v1", framework.Function{Name: "orders", Max: 1, Source: framework.ReportingHandler("")})
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, fmt.Sprintf(`
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: from-application}
spec: {sink: "http://orders.%s.svc.cluster.local", source: %s, types: [order.created.v1]}
`, namespace, app)))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "from-application"))
	authority, secured := applicationCertificate(t, "commerce")
	host := namespace + "." + framework.OwnDomain
	secured.ServerName, secured.InsecureSkipVerify = host, true
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, fmt.Sprintf(`
apiVersion: rouse.run/v1alpha1
kind: Door
metadata: {name: commerce}
spec:
  gateway: %s
  host: %s
  application: {name: %s}
  clientCertificates:
    subjects: [commerce]
    ca: |
%s
`, framework.OwnGateway, namespace, app, indented(authority, "      "))))
	awaitDoor(t, cluster, namespace, "commerce", "Open")

	event := fmt.Sprintf(`{"event-type":"order.created","event-type-version":"v1","event-time":"2026-01-02T03:04:05Z","data":{"key":%q}}`, namespace)
	json := func() http.Header { return http.Header{"Content-Type": {"application/json"}} }
	trusted := newOutside(t, cluster, host, secured)
	var status int
	var text string
	err := framework.Await(t.Context(), 3*time.Minute, "the gateway to serve its certificate", func(context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, trusted.url+"/"+app+"/v1/events", bytes.NewReader([]byte(event)))
		if err != nil {
			return false, err
		}
		request.Host, request.Header = host, json()
		answer, err := trusted.client.Do(request)
		if err != nil {
			return false, err
		}
		defer func() { _ = answer.Body.Close() }()
		read, err := io.ReadAll(answer.Body)
		status, text = answer.StatusCode, string(read)
		return err == nil, err
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, "event-id")
	entries, err := cluster.AwaitLedger(t.Context(), namespace, []string{namespace}, 2*time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, entries[namespace].Count)

	_, stranger := applicationCertificate(t, "commerce")
	stranger.ServerName, stranger.InsecureSkipVerify = host, true
	status, text = newOutside(t, cluster, host, stranger).post(t, "/"+app+"/v1/events", json(), event)
	require.Equal(t, http.StatusForbidden, status, text)
	require.Contains(t, text, "No valid subject found")
	status, _ = newOutside(t, cluster, host, nil).post(t, "/"+app+"/v1/events", http.Header{
		"Content-Type": {"application/json"}, "X-Forwarded-Client-Cert": {`Subject="CN=commerce"`}, "Rouse-Client-Certificate": {"AAAA"},
	}, event)
	require.Equal(t, http.StatusUnauthorized, status, "without TLS nobody has a certificate")
	status, _ = trusted.post(t, "/bank/v1/events", json(), event)
	require.Equal(t, http.StatusNotFound, status, "another application")
	for name, other := range map[string]string{"another host on this connection": "unknown." + framework.OwnDomain} {
		moved := *trusted
		moved.host = other
		status, _ = moved.post(t, "/"+app+"/v1/events", json(), event)
		require.Equal(t, http.StatusNotFound, status, name)
	}
}

func indented(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
}
