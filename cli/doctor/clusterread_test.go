package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// controlPlane starts for the first test that needs it.
var controlPlane = envtest.New(envtest.WithKEDA())

func TestMain(m *testing.M) { os.Exit(controlPlane.Main(m)) }

// opened connects to the API server as a user: admin, or one with no rights at all.
func opened(t *testing.T, env *envtest.Environment, namespace, user, admin string) *target.Connection {
	t.Helper()
	written := clientcmdapi.NewConfig()
	written.Clusters["test"] = &clientcmdapi.Cluster{Server: env.Config.Host, CertificateAuthorityData: env.Config.CAData}
	info := &clientcmdapi.AuthInfo{ClientCertificateData: env.Config.CertData, ClientKeyData: env.Config.KeyData, Token: env.Config.BearerToken}
	if user != "admin" {
		info.Impersonate = user
	}
	written.AuthInfos[user] = info
	written.Contexts[user] = &clientcmdapi.Context{Cluster: "test", AuthInfo: user, Namespace: namespace}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*written, path))
	conn, err := target.Open(target.Options{
		Context: user, Kubeconfig: path, RouseNamespace: namespace, AdminURLs: []string{admin}, ServiceAccount: namespace + "/operator",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// bridge is an admin API with a Subscription whose events wait.
func bridge(t *testing.T, namespace string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"subscriptions": []any{map[string]any{
			"namespace": namespace, "name": "pricing", "consumer": true, "backlog": 3, "deadLetters": 1,
		}}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const brokenCluster = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: rouse-controller
  labels: {app.kubernetes.io/part-of: rouse, app.kubernetes.io/version: 0.1.0}
spec:
  replicas: 1
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: controller, image: x}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
---
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: pricing}
spec: {runtime: nodejs22, source: {inline: {source: "x"}}}
`

func (r reading) examined(t *testing.T) Report {
	t.Helper()
	cluster, err := r.read(t.Context())
	require.NoError(t, err)
	return cluster.Examine()
}

func readingOf(t *testing.T, conn *target.Connection) reading {
	t.Helper()
	kubernetes, ok := conn.Kubernetes()
	require.True(t, ok)
	bridge := func(ctx context.Context) (*target.Client, error) {
		admins, err := conn.Admins(ctx)
		if err != nil {
			return nil, err
		}
		return target.New(admins[0]), nil
	}
	return reading{conn, kubernetes, bridge, time.Millisecond}
}

func TestTheFactsAboutAClusterAreRead(t *testing.T) {
	t.Parallel()
	env := controlPlane.Environment(t)
	namespace := env.Namespace(t)
	for manifest := range strings.SplitSeq(brokenCluster, "---\n") {
		object := envtest.Object(t, manifest)
		object.SetNamespace(namespace)
		require.NoError(t, env.Client.Create(t.Context(), object))
	}
	pair := loopback.Make(t, time.Now().Add(36*time.Hour), "scaler")
	certificate := envtest.Object(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: scaler-tls}\ntype: kubernetes.io/tls\n")
	certificate.SetNamespace(namespace)
	certificate.Object["stringData"] = map[string]any{"tls.crt": string(pair.Certificate), "tls.key": string(pair.Key)}
	require.NoError(t, env.Client.Create(t.Context(), certificate))

	report := readingOf(t, opened(t, env, namespace, "admin", bridge(t, namespace))).examined(t)
	found := strings.Join(lines(report, ""), "\n")
	for _, want := range []string{
		"failure components: rouse-controller has no replica ready, of 1",
		"failure keda: KEDA's resources are served, and there is no operator",
		fmt.Sprintf("warning certificates: Secret %s/scaler-tls expires in 1 day, ", namespace),
		"failure networkpolicies: no NetworkPolicy admits Rouse to pricing: events",
		"failure networkpolicies: no NetworkPolicy lets pricing ask DNS",
		"warning consumers: 3 events wait for Subscription " + namespace + "/pricing, and none is delivered",
		"warning deadletters: dead letters: 1 of " + namespace + "/pricing",
	} {
		require.Contains(t, found, want)
	}
	require.NotContains(t, found, "not checked", "an administrator may read everything")
	require.Contains(t, strings.Join(lines(report, checkRights), "\n"), "ok rights: you have the 11 rights")
	require.Contains(t, strings.Join(lines(report, checkClock), "\n"), "agree")
	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.NotContains(t, string(text), "PRIVATE KEY")
}

func TestAUserWithoutRightsIsToldWhichAreMissing(t *testing.T) {
	t.Parallel()
	env := controlPlane.Environment(t)
	namespace := env.Namespace(t)
	report := readingOf(t, opened(t, env, namespace, "limited", bridge(t, namespace))).examined(t)
	require.Zero(t, report.Failures, "a right that is missing is no failure: %v", report.Findings)
	for _, check := range []string{checkComponents, checkKEDA, checkCertificates, checkNodes, checkPods, checkFunctions, checkPolicies, checkConsumers} {
		require.Contains(t, strings.Join(lines(report, check), "\n"), "warning "+check+": not checked: ", check)
	}
	require.Len(t, lines(report, checkRights), 11)
}

func TestAClusterThatDoesNotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	env := controlPlane.Environment(t)
	unreachable := *env
	config := *env.Config
	config.Host = "https://127.0.0.1:1"
	unreachable.Config = &config
	_, err := readingOf(t, opened(t, &unreachable, "default", "admin", "http://127.0.0.1:1")).read(t.Context())
	require.ErrorContains(t, err, "does not answer")
}

func TestAFunctionHasTheProblemOfItsFirstCondition(t *testing.T) {
	t.Parallel()
	conditions := func(each ...metav1.Condition) *v1alpha2.Function {
		return &v1alpha2.Function{Status: v1alpha2.FunctionStatus{Conditions: each}}
	}
	wrong := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: "x", Status: status, Reason: reason, Message: "m"}
	}
	require.Empty(t, functionOf(conditions(wrong(metav1.ConditionTrue, "r"), wrong(metav1.ConditionUnknown, "r"))))
	require.Equal(t, Function{Reason: "r", Problem: "m"}, functionOf(conditions(wrong(metav1.ConditionFalse, "r"), wrong(metav1.ConditionFalse, "s"))))
	require.Equal(t, Function{Reason: v1alpha2.ReasonRegistryUnavailable, Problem: "m"},
		functionOf(conditions(wrong(metav1.ConditionUnknown, v1alpha2.ReasonRegistryUnavailable))))
	require.Equal(t, Function{NoRegistry: true}, functionOf(conditions(wrong(metav1.ConditionFalse, v1alpha2.ReasonNoRegistry))))
	require.Empty(t, functionOf(conditions(wrong(metav1.ConditionFalse, v1alpha2.ReasonKedaNotInstalled))))
}

func TestACertificateThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	require.Equal(t, "it has no certificate in PEM", certificateOf("x", []byte("no")).Problem)
	require.Contains(t, certificateOf("x", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")).Problem, "cannot be read")
}
