package dashboard

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	clientID     = "rouse-dashboard"
	clientSecret = "the-secret-of-the-client"
)

// store knows the dashboard as a client.
type store struct {
	*storage.Storage

	home string
}

func (s store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	found, err := s.Storage.GetClientByClientID(ctx, id)
	return knownClient{found, s.home}, err
}

type knownClient struct {
	op.Client

	home string
}

func (c knownClient) PostLogoutRedirectURIs() []string { return []string{c.home + "/"} }

// startProvider starts the provider of zitadel/oidc, which sends users back to a home.
func startProvider(t *testing.T, home string) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	issuer := "https://" + server.Listener.Addr().String()
	storage.RegisterClients(storage.WebClient(clientID, clientSecret, home+"/login/callback"))
	known := store{storage.NewStorage(storage.NewUserStore(issuer)), home}
	server.Config.Handler = exampleop.SetupServer(issuer, known, slog.New(slog.DiscardHandler), false)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// startTrusting starts an API server that takes the tokens of a provider.
func startTrusting(t *testing.T, issuer *httptest.Server) *envtest.Environment {
	t.Helper()
	ca := written(t, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw}))
	cluster := envtest.New(envtest.WithFlags(map[string]string{
		"oidc-issuer-url": issuer.URL, "oidc-client-id": clientID, "oidc-ca-file": ca, "oidc-username-prefix": "oidc:",
	}, nil))
	env, err := cluster.Start()
	require.NoError(t, err, "make test-dashboard provides the API server")
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	return env
}

// written writes a file of the test, and returns its path.
func written(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}

// startDashboard runs the dashboard of a cluster until the test ends, with the certificate of the provider.
func startDashboard(t *testing.T, env *envtest.Environment, issuer *httptest.Server, home string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dashboard")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/dashboard")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	config, err := env.KubeConfig("dashboard", "system:masters")
	require.NoError(t, err)
	pair := issuer.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	certificate := written(t, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	command := exec.Command(program, "--address="+strings.TrimPrefix(home, "https://"), "--metrics-address=127.0.0.1:0", "--name=a cluster",
		"--tls-cert="+certificate, "--tls-key="+written(t, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"--bridge-token-file="+written(t, "token", []byte("no bridge reads it")), "--oidc-issuer="+issuer.URL, "--oidc-client-id="+clientID,
		"--oidc-client-secret-file="+written(t, "secret", []byte(clientSecret)), "--oidc-ca-file="+certificate, "--oidc-name=Example",
		"--oidc-scopes=offline_access", "--oidc-home="+home)
	command.Env = append(os.Environ(), "KUBECONFIG="+written(t, "kubeconfig", config))
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		require.NotContains(t, log.String(), clientSecret)
		if t.Failed() {
			t.Logf("output of the dashboard:\n%s", log.String())
		}
	})
	within(t, slowTimeout, "the dashboard listens", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(home, "https://"))
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// functionIn makes a Function in a new namespace.
func functionIn(t *testing.T, env *envtest.Environment, name string) (namespace string) {
	t.Helper()
	namespace = env.Namespace(t)
	object := envtest.Object(t, `
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
spec: {runtime: nodejs22, source: {inline: {source: "module.exports.main = () => 1"}}}
`)
	object.SetNamespace(namespace)
	object.SetName(name)
	require.NoError(t, env.Client.Create(t.Context(), object))
	return namespace
}

// mayRead lets a user read in a namespace.
func mayRead(t *testing.T, env *envtest.Environment, user, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "reader"}
	require.NoError(t, env.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"serverless.kyma-project.io", "eventing.kyma-project.io"}, Resources: []string{"functions", "subscriptions"},
		Verbs: []string{"get", "list", "watch"},
	}}}))
	require.NoError(t, env.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}

// freeAddress returns an address of this machine that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return "localhost:" + port
}

// trustAll has the browser take the certificates of the test.
func (b *browser) trustAll(t *testing.T) {
	t.Helper()
	b.do(t, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
		return err
	}))
}

// The issuer and the dashboard are of two sites, 127.0.0.1 and localhost.
func TestAUserLogsInAtAnIssuerSeesTheirNamespaceAndLogsOutOfBoth(t *testing.T) {
	home := "https://" + freeAddress(t)
	issuer := startProvider(t, home)
	env := startTrusting(t, issuer)
	own := functionIn(t, env, "visible")
	functionIn(t, env, "hidden")
	mayRead(t, env, "oidc:id1", own)
	startDashboard(t, env, issuer, home)
	b := open(t)
	b.trustAll(t)
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(home+"/functions?q=vis"))
	b.showsAtLast(t, "main", "Log in with Example")
	require.Empty(t, b.barriers(t))
	picture(t, b, "issuer-login")
	logIn := func() {
		b.showsAtLast(t, "main", "Log in with Example")
		b.press(t, "Log in with Example")
		b.fill(t, "#username", "test-user@127.0.0.1")
		b.fill(t, "#password", "verysecure")
		b.press(t, "Login")
		within(t, slowTimeout, "the issuer leads back", func() bool {
			return b.truth(t, `location.origin === "`+home+`" && document.querySelector(".account, .login [role=alert]") !== null`)
		})
	}
	within(t, slowTimeout, "the API server has read the keys of the issuer, and knows the user", func() bool {
		logIn()
		return strings.Contains(b.text(t, "main"), "oidc:id1 may not list Functions in all namespaces: name a namespace of yours")
	})
	b.fill(t, "input[name=namespace]", own)
	logIn()
	b.showsAtLast(t, "main", "visible")
	require.Equal(t, "/functions?q=vis", evaluate[string](t, b, "location.pathname + location.search"))
	require.NotContains(t, b.text(t, "body"), "hidden")
	require.Contains(t, b.text(t, ".account"), "id1")
	require.Equal(t, `""`, evaluate[string](t, b, "JSON.stringify(document.cookie)"), "no script sees a cookie")

	b.press(t, "Log out")
	b.showsAtLast(t, "main", "Log in with Example")
	require.Equal(t, home+"/", evaluate[string](t, b, "location.href"), "the issuer has led back")
	b.throwsNothing(t)
}
