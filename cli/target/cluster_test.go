package target

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/skew"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// controlPlane starts for the first test that needs it.
var controlPlane = envtest.New(envtest.WithKEDA())

func TestMain(m *testing.M) { os.Exit(controlPlane.Main(m)) }

const testTimeout = time.Minute

// kubeconfig has the contexts admin with all permissions, limited without any, and stranger with an invalid token.
func kubeconfig(t *testing.T, config *rest.Config, namespace string) string {
	t.Helper()
	written := clientcmdapi.NewConfig()
	written.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	admin := &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	limited := admin.DeepCopy()
	limited.Impersonate = "limited"
	stranger := &clientcmdapi.AuthInfo{Token: "wrong"}
	for name, user := range map[string]*clientcmdapi.AuthInfo{"admin": admin, "limited": limited, "stranger": stranger} {
		written.AuthInfos[name] = user
		written.Contexts[name] = &clientcmdapi.Context{Cluster: "test", AuthInfo: name, Namespace: namespace}
	}
	written.CurrentContext = "admin"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*written, path))
	return path
}

type testCluster struct {
	*envtest.Environment
	namespace, kubeconfig string
}

func newTestCluster(t *testing.T) testCluster {
	t.Helper()
	environment := controlPlane.Environment(t)
	namespace := environment.Namespace(t)
	return testCluster{environment, namespace, kubeconfig(t, environment.Config, namespace)}
}

func (c testCluster) open(t *testing.T, context string, notes ...func(string)) *Connection {
	t.Helper()
	o := Options{Context: context, Kubeconfig: c.kubeconfig, RouseNamespace: c.namespace}
	for _, note := range notes {
		o.Note = note
	}
	conn, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

func (c testCluster) apply(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := envtest.Object(t, manifest)
	object.SetNamespace(c.namespace)
	require.NoError(t, c.Client.Create(t.Context(), object))
	return object
}

const functionManifest = `
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: pricing}
spec:
  runtime: nodejs22
  source: {inline: {source: "module.exports = {main: () => 1}"}}
`

const subscriptionManifest = `
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: pricing}
spec:
  source: shop
  types: [order.received]
  sink: http://me:secret@pricing.svc.cluster.local
`

const deploymentManifest = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: pricing
  labels: {serverless.kyma-project.io/managed-by: function-controller}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: function, image: x}]}
`

const podManifest = `
apiVersion: v1
kind: Pod
metadata:
  name: bridge
spec:
  containers: [{name: eventbridge, image: x, ports: [{name: http, containerPort: 8080}, {name: admin, containerPort: 9091}]}]
`

func TestMissingContextListsTheExistingOnes(t *testing.T) {
	t.Parallel()
	path := kubeconfig(t, &rest.Config{Host: "https://127.0.0.1:1"}, "default")
	_, err := Open(Options{Context: "production", Kubeconfig: path})
	require.EqualError(t, err, "there is no context production; there are admin, limited, stranger")
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	_, err = Open(Options{Kubeconfig: "/does/not/exist"})
	require.ErrorContains(t, err, "/does/not/exist")
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = Open(Options{Kubeconfig: path})
	require.ErrorContains(t, err, "read the kubeconfig")
}

func TestAClusterThatDoesNotAnswerIsUnreachable(t *testing.T) {
	t.Parallel()
	conn, err := Open(Options{Kubeconfig: kubeconfig(t, &rest.Config{Host: "https://127.0.0.1:1"}, "default")})
	require.NoError(t, err)
	_, err = conn.Functions(t.Context(), "default")
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.ErrorContains(t, err, "does not answer")
	require.NoError(t, conn.Close())
}

func TestFunctionsOfAClusterAreListedOrReportedMissing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	conn := c.open(t, "admin")
	require.Equal(t, c.namespace, conn.Namespace, "the context's namespace does not count")
	c.apply(t, functionManifest)
	c.apply(t, deploymentManifest)
	functions, err := conn.Functions(t.Context(), c.namespace)
	require.NoError(t, err)
	require.Equal(t, []Function{{
		Namespace: c.namespace, Name: "pricing", Runtime: "nodejs22", Phase: "preparing", Min: 1, Max: 1,
		URL: "http://pricing." + c.namespace + ".svc.cluster.local",
	}}, functions)

	_, err = conn.Function(t.Context(), c.namespace, "princing")
	require.Equal(t, exit.NotFound, exit.CodeOf(err))
	require.ErrorContains(t, err, "there is no Function princing in namespace "+c.namespace+"; there are "+c.namespace+"/pricing")
	err = conn.Log(t.Context(), c.namespace, "pricing", LogOptions{}, func(Line) {})
	require.Equal(t, exit.NotFound, exit.CodeOf(err))
	require.ErrorContains(t, err, "Function pricing sleeps")
}

func TestSubscriptionsOfAClusterAreListed(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, subscriptionManifest)
	for _, namespace := range []string{c.namespace, ""} {
		subscriptions, err := c.open(t, "admin").Subscriptions(t.Context(), namespace)
		require.NoError(t, err)
		require.Contains(t, subscriptions, Subscription{
			Namespace: c.namespace, Name: "pricing", Source: "shop", Types: []string{"order.received"}, TypeMatching: "standard",
			Sink: "http://pricing.svc.cluster.local", State: "preparing",
		})
	}
	namespaces, err := c.open(t, "admin").Namespaces(t.Context())
	require.NoError(t, err)
	require.Contains(t, namespaces, c.namespace)
}

func TestASleepingFunctionIsWokenByItsScale(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, functionManifest)
	deployment := c.apply(t, deploymentManifest)
	notes := make(chan string, 1000)
	conn := c.open(t, "admin", func(text string) { notes <- text })
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Function(t.Context(), c.namespace, "pricing")
		ended <- err
	}()
	require.Eventually(t, func() bool {
		key := client.ObjectKeyFromObject(deployment)
		err := c.Client.Get(t.Context(), key, deployment)
		count, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
		return err == nil && count == 1
	}, testTimeout, 10*time.Millisecond)
	require.Equal(t, "Function pricing sleeps: waking it", <-notes)

	pod := c.apply(t, podManifest)
	require.Equal(t, "bridge", pod.GetName())
	pod.SetLabels(map[string]string{
		"serverless.kyma-project.io/function-name": "pricing", "serverless.kyma-project.io/resource": "deployment",
	})
	require.NoError(t, c.Client.Update(t.Context(), pod))
	status := map[string]any{"containerStatuses": []any{map[string]any{
		"name": "eventbridge", "image": "x", "imageID": "", "ready": false, "restartCount": int64(3),
		"state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off"}},
	}}}
	require.NoError(t, unstructured.SetNestedMap(pod.Object, status, "status"))
	require.NoError(t, c.Client.Status().Update(t.Context(), pod))
	err := <-ended
	require.EqualError(t, err, "pod bridge does not start: CrashLoopBackOff: back-off; rouse logs shows what it printed")
}

func TestBridgesAreFoundByTheirPodsOrReportedMissing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	conn := c.open(t, "admin")
	_, err := conn.Publish(t.Context())
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.ErrorContains(t, err, "there is no eventbridge in namespace "+c.namespace)
	require.ErrorContains(t, err, "--rouse-namespace")

	pod := c.apply(t, podManifest)
	pod.SetLabels(map[string]string{"app.kubernetes.io/part-of": "rouse", "app.kubernetes.io/component": "eventbridge"})
	require.NoError(t, c.Client.Update(t.Context(), pod))
	_, err = conn.Admins(t.Context())
	require.ErrorContains(t, err, "no eventbridge is ready in namespace "+c.namespace)

	require.NoError(t, unstructured.SetNestedMap(pod.Object, map[string]any{
		"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	}, "status"))
	require.NoError(t, c.Client.Status().Update(t.Context(), pod))
	_, err = conn.Admins(t.Context()) // no kubelet can open the port
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.ErrorContains(t, err, "forward a port of pod "+c.namespace+"/bridge")
}

func TestForbiddenRequestsNameTheMissingPermission(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	conn := c.open(t, "limited")
	for want, ask := range map[string]func() error{
		"list functions": func() error {
			_, err := conn.Functions(t.Context(), c.namespace)
			return err
		},
		"get functions": func() error {
			_, err := conn.Function(t.Context(), c.namespace, "pricing")
			return err
		},
		"list subscriptions": func() error {
			_, err := conn.Subscriptions(t.Context(), c.namespace)
			return err
		},
		"list pods": func() error {
			_, err := conn.Publish(t.Context())
			return err
		},
	} {
		err := ask()
		require.Equal(t, exit.Unreachable, exit.CodeOf(err), want)
		require.ErrorContains(t, err, "you may not "+want+" in namespace "+c.namespace+": ask for a role with that verb")
	}
	_, err := c.open(t, "stranger").Functions(t.Context(), "")
	require.ErrorContains(t, err, "does not accept your credentials: log in again")
}

func TestOtherVersionsOfResourcesNameTheSideToChange(t *testing.T) {
	t.Parallel()
	const group, earlier, later = "/apis/serverless.kyma-project.io", "/v1alpha1", "/v1beta1"
	list := func(version string) string {
		return `{"kind":"APIGroup","name":"serverless.kyma-project.io","versions":[{"groupVersion":"serverless.kyma-project.io` + version +
			`","version":"` + version[1:] + `"}]}`
	}
	const functions, repositories = `{"resources":[{"name":"functions"},{"name":"functions/status"}]}`, `{"resources":[{"name":"gitrepositories"}]}`
	for name, tc := range map[string]struct {
		answers map[string]string
		want    error
		text    string
	}{
		"no Rouse":              {text: "Rouse is not installed there"},
		"another resource only": {answers: map[string]string{group: list(earlier), group + earlier: repositories}, text: "Rouse is not installed there"},
		"an earlier release": {
			answers: map[string]string{group: list(earlier), group + earlier: functions}, want: skew.ErrServerTooOld, text: "serves functions in v1alpha1",
		},
		"a later release": {
			answers: map[string]string{group: list(later), group + later: functions}, want: skew.ErrClientTooOld, text: "the cluster serves v1beta1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer, found := tc.answers[r.URL.Path]
				w.Header().Set("Content-Type", "application/json")
				if !found {
					w.WriteHeader(http.StatusNotFound)
					answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
				}
				_, _ = w.Write([]byte(answer))
			}))
			t.Cleanup(server.Close)
			conn, err := Open(Options{Context: "admin", Kubeconfig: kubeconfig(t, &rest.Config{Host: server.URL}, "default")})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, conn.Close()) })
			_, err = conn.Functions(t.Context(), "default")
			require.Equal(t, exit.Unreachable, exit.CodeOf(err))
			require.ErrorContains(t, err, tc.text)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
			}
		})
	}
}

func TestABridgeThatNoLongerServesThisClientNamesTheVersionToUse(t *testing.T) {
	t.Parallel()
	told := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get(skew.Header)
		w.Header().Set(skew.Header, skew.Side{Level: skew.Level + 2, Oldest: skew.Level + 1, Version: "v9.1.0"}.String())
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"no"}`)
	}))
	t.Cleanup(server.Close)
	_, err := New(Admin{URL: server.URL, Token: "t"}).Work(t.Context(), "shop")
	require.ErrorIs(t, err, skew.ErrClientTooOld)
	require.ErrorContains(t, err, "use rouse v9.1.0")
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.Equal(t, skew.This(daemon.Version()).String(), <-told)
}

func TestOnlyUnsupportedRequestsAreExplainedByTheBridgesVersion(t *testing.T) {
	t.Parallel()
	client := skew.Side{Level: 3, Oldest: 2, Version: "v0.3.0"}
	older := skew.Side{Level: 2, Oldest: 1, Version: "v0.2.0"}.String()
	for name, tc := range map[string]struct {
		header  string
		status  int
		message string
		want    error
	}{
		"an unknown parameter":       {older, http.StatusBadRequest, "there is no parameter", skew.ErrServerTooOld},
		"an unknown path":            {older, http.StatusNotFound, skew.NoSuchPath, skew.ErrServerTooOld},
		"an unknown method":          {older, http.StatusMethodNotAllowed, "use POST", skew.ErrServerTooOld},
		"a missing dead letter":      {older, http.StatusNotFound, "there is no such dead letter", nil},
		"a missing right":            {older, http.StatusForbidden, "no", nil},
		"the same release":           {client.String(), http.StatusBadRequest, "namespace: no", nil},
		"a bridge without a version": {"", http.StatusBadRequest, "namespace: no", nil},
	} {
		response := &http.Response{StatusCode: tc.status, Header: http.Header{}}
		response.Header.Set(skew.Header, tc.header)
		require.ErrorIs(t, unfit(client, response, tc.message), tc.want, name)
	}
}
