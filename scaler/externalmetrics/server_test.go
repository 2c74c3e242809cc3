package externalmetrics

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// frontProxy is kube-apiserver's certificate as a client, which is its own authority.
const frontProxyName = "front-proxy"

var (
	cluster    *envtest.Cluster
	frontProxy loopback.Pair
	sameName   loopback.Pair // of another authority
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "frontproxy-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		frontProxy, err = loopback.MakeClient(frontProxyName, nil)
	}
	if err == nil {
		sameName, err = loopback.MakeClient(frontProxyName, nil)
	}
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if err = errors.Join(err, os.WriteFile(certFile, frontProxy.Certificate, 0o600), os.WriteFile(keyFile, frontProxy.Key, 0o600)); err != nil {
		fmt.Fprintln(os.Stderr, "make the certificate of kube-apiserver's proxy:", err)
		return 1
	}
	cluster = envtest.New(envtest.WithFlags(map[string]string{
		"requestheader-client-ca-file": certFile, "requestheader-allowed-names": frontProxyName,
		"requestheader-username-headers": "X-Remote-User", "requestheader-group-headers": "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"proxy-client-cert-file":             certFile, "proxy-client-key-file": keyFile,
	}, nil))
	return cluster.Main(m)
}

var errUnknown = errors.New("function shop/unknown: the backlog is not known yet")

// measure knows two Functions.
func measure(_ context.Context, namespace, metric string, labels map[string]string) (int64, error) {
	switch {
	case metric != "rouse-backlog":
		return 0, errors.New("the trigger has no metric " + metric)
	case namespace == "shop" && labels["function"] == "pricing":
		return 42_000, nil
	case labels["function"] == "unknown":
		return 0, errUnknown
	}
	return 0, nil
}

func explain(err error) (string, bool) { return err.Error(), !errors.Is(err, errUnknown) }

// serve runs a server behind an APIService of the cluster, and returns its address.
func serve(t *testing.T) (environment *envtest.Environment, address string) {
	t.Helper()
	environment = cluster.Environment(t)
	own := loopback.Make(t, time.Time{}, "external-metrics.default.svc")
	dir := t.TempDir()
	options := Options{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	require.NoError(t, os.WriteFile(options.CertFile, own.Certificate, 0o600))
	require.NoError(t, os.WriteFile(options.KeyFile, own.Key, 0o600))
	server, err := New(options, environment.Config, measure, explain, logr.Discard())
	require.NoError(t, err)
	server.listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := server.listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is one
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, server.Run(ctx))
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	register(t, environment, port, own.Certificate)
	return environment, server.listener.Addr().String()
}

// register leads the API of the cluster to a server, until the test ends.
func register(t *testing.T, environment *envtest.Environment, port int, authority []byte) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "external-metrics"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": v1beta1.SchemeGroupVersion.Version + "." + v1beta1.GroupName},
		"spec": map[string]any{
			"group": v1beta1.GroupName, "version": v1beta1.SchemeGroupVersion.Version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"caBundle": authority, "service": map[string]any{"namespace": "default", "name": "external-metrics", "port": int64(port)},
		},
	}}
	require.NoError(t, environment.Client.Create(t.Context(), service))
	require.NoError(t, environment.Client.Create(t.Context(), api))
	t.Cleanup(func() {
		assert.NoError(t, environment.Client.Delete(context.Background(), api))
		assert.NoError(t, environment.Client.Delete(context.Background(), service))
	})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := api.DeepCopy()
		require.NoError(c, environment.Client.Get(t.Context(), client.ObjectKeyFromObject(api), found))
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		require.Contains(c, fmt.Sprint(conditions), "status:True type:Available")
	}, time.Minute, 50*time.Millisecond)
}

// read reads a metric as the controller of autoscalers does.
func read(t *testing.T, config *rest.Config, namespace, metric, selector string) (*v1beta1.ExternalMetricValueList, error) {
	t.Helper()
	metrics, err := externalclient.NewForConfig(config)
	require.NoError(t, err)
	parsed, err := labels.Parse(selector)
	require.NoError(t, err)
	return metrics.NamespacedMetrics(namespace).List(metric, parsed)
}

func TestAnAutoscalerReadsABacklogByTheAPIServer(t *testing.T) {
	environment, _ := serve(t)
	found, err := read(t, environment.Config, "shop", "rouse-backlog", "function=pricing,lagThreshold=5")
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	require.Equal(t, "42", found.Items[0].Value.String())
	require.Equal(t, "rouse-backlog", found.Items[0].MetricName)
	require.WithinDuration(t, time.Now(), found.Items[0].Timestamp.Time, time.Minute)

	found, err = read(t, environment.Config, "other", "rouse-backlog", "function=pricing")
	require.NoError(t, err)
	require.True(t, found.Items[0].Value.IsZero(), "another namespace has another Function")
}

func TestAValueThatIsNotKnownIsAnErrorAndAWrongRequestIsAnother(t *testing.T) {
	environment, _ := serve(t)
	_, err := read(t, environment.Config, "shop", "rouse-backlog", "function=unknown")
	require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	require.ErrorContains(t, err, "is not known yet")
	for selector, says := range map[string]string{
		"function!=pricing":          "only matchLabels are supported",
		"function in (pricing,cart)": "only matchLabels are supported",
		"function":                   "only matchLabels are supported",
	} {
		_, err := read(t, environment.Config, "shop", "rouse-backlog", selector)
		require.True(t, apierrors.IsBadRequest(err), "%s: %v", selector, err)
		require.ErrorContains(t, err, says)
	}
	_, err = read(t, environment.Config, "shop", "cpu", "function=pricing")
	require.True(t, apierrors.IsBadRequest(err), "%v", err)
	require.ErrorContains(t, err, "the trigger has no metric cpu")
}

func TestRightsAreThoseOfTheAPIServer(t *testing.T) {
	environment, _ := serve(t)
	tenant := rest.CopyConfig(environment.Config)
	tenant.Impersonate = rest.ImpersonationConfig{UserName: "tenant", Groups: []string{"system:authenticated"}}
	_, err := read(t, tenant, "shop", "rouse-backlog", "function=pricing")
	require.True(t, apierrors.IsForbidden(err), "%v", err)

	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "metrics"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1beta1.GroupName}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "metrics"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "metrics"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "tenant"}},
	}
	require.NoError(t, environment.Client.Create(t.Context(), role))
	require.NoError(t, environment.Client.Create(t.Context(), binding))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := read(t, tenant, "default", "rouse-backlog", "function=pricing")
		require.NoError(c, err)
	}, time.Minute, 50*time.Millisecond, "in its own namespace")
	_, err = read(t, tenant, "shop", "rouse-backlog", "function=pricing")
	require.True(t, apierrors.IsForbidden(err), "in another's: %v", err)
}

func TestOnlyTheProxyOfTheAPIServerGetsAnAnswer(t *testing.T) {
	_, address := serve(t)
	otherName, err := loopback.MakeClient("somebody", &frontProxy)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		certificates []loopback.Pair
		status       int
	}{
		"without a certificate":      {status: http.StatusUnauthorized},
		"of another authority":       {certificates: []loopback.Pair{sameName}, status: http.StatusUnauthorized},
		"of another name":            {certificates: []loopback.Pair{otherName}, status: http.StatusUnauthorized},
		"kube-apiserver's own proxy": {certificates: []loopback.Pair{frontProxy}, status: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{InsecureSkipVerify: true}
			for _, pair := range tc.certificates {
				own, err := tls.X509KeyPair(pair.Certificate, pair.Key)
				require.NoError(t, err)
				config.Certificates = append(config.Certificates, own)
			}
			transport := &http.Transport{TLSClientConfig: config}
			defer transport.CloseIdleConnections()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"https://"+address+groupPath+"/v1beta1/namespaces/shop/rouse-backlog?labelSelector=function%3Dpricing", nil)
			require.NoError(t, err)
			request.Header.Set("X-Remote-User", "system:admin") // anybody can write it
			response, err := transport.RoundTrip(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, tc.status, response.StatusCode)
		})
	}
}
