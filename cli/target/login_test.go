package target

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const anyURL = "https://admin.example.com"

// loginAs returns the token that the admin API gets from a user of a kubeconfig.
func (c testCluster) loginAs(t *testing.T, user clientcmdapi.AuthInfo, account string) (string, error) {
	t.Helper()
	written := clientcmdapi.NewConfig()
	written.Clusters["test"] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
	written.AuthInfos["test"] = &user
	written.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*written, path))
	conn, err := Open(Options{Context: "test", Kubeconfig: path, RouseNamespace: c.namespace, AdminURLs: []string{anyURL}, ServiceAccount: account})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	admins, err := conn.Admins(t.Context())
	if err != nil {
		return "", err
	}
	require.Len(t, admins, 1)
	require.Equal(t, anyURL, admins[0].URL)
	return admins[0].Token, nil
}

func (c testCluster) certificate() clientcmdapi.AuthInfo {
	return clientcmdapi.AuthInfo{ClientCertificateData: c.Config.CertData, ClientKeyData: c.Config.KeyData, Token: c.Config.BearerToken}
}

func (c testCluster) makeAccount(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, c.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}))
}

func TestTheAdminAPIGetsTheTokenOfTheKubeconfig(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("of-a-file\n"), 0o600))
	program := filepath.Join(t.TempDir(), "login")
	require.NoError(t, envtest.Script(program,
		`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of-a-program"}}'`))
	for want, user := range map[string]clientcmdapi.AuthInfo{
		"itself":    {Token: "itself"},
		"of-a-file": {TokenFile: file},
		"of-a-program": {Exec: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: program, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}},
	} {
		got, err := c.loginAs(t, user, "")
		require.NoError(t, err, want)
		require.Equal(t, want, got)
	}
	_, err := c.loginAs(t, clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "/does/not/exist", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}, "")
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.ErrorContains(t, err, "/does/not/exist")
}

func TestCertificateLogsInWithATokenForTheAdminAPIOnly(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.makeAccount(t, adminAccount)
	c.makeAccount(t, "reader")
	impersonating := c.certificate()
	impersonating.Impersonate, impersonating.ImpersonateGroups = "somebody", []string{"system:masters"}
	withToken := clientcmdapi.AuthInfo{Token: "itself"}
	for name, tc := range map[string]struct {
		user    clientcmdapi.AuthInfo
		account string
		want    string
	}{
		"the chart's":            {c.certificate(), "", adminAccount},
		"a named ServiceAccount": {c.certificate(), c.namespace + "/reader", "reader"},
		"an impersonating user":  {impersonating, "", adminAccount},
	} {
		token, err := c.loginAs(t, tc.user, tc.account)
		require.NoError(t, err, name)
		for audience, good := range map[string]bool{identity.Audience: true, "": false, "rouse-eventbridge": false} {
			review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
			if audience != "" {
				review.Spec.Audiences = []string{audience}
			}
			require.NoError(t, c.Client.Create(t.Context(), review))
			require.Equal(t, good, review.Status.Authenticated, "%s %q", name, audience)
			if good {
				require.Equal(t, "system:serviceaccount:"+c.namespace+":"+tc.want, review.Status.User.Username, name)
			}
		}
	}
	_, err := c.loginAs(t, withToken, c.namespace+"/reader")
	require.ErrorContains(t, err, "does not accept your credentials", "the token is for the API server then")
}

func TestFailedLoginNamesTheRemedy(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	limited := c.certificate()
	limited.Impersonate = "limited"
	for _, tc := range []struct {
		user    clientcmdapi.AuthInfo
		account string
		code    exit.Code
		want    []string
	}{
		{c.certificate(), "", exit.Unreachable, []string{
			"your kubeconfig has no token", "there is no ServiceAccount " + c.namespace + "/rouse-admin", "--service-account NAMESPACE/NAME",
		}},
		{c.certificate(), c.namespace + "/none", exit.Unreachable, []string{"there is no ServiceAccount " + c.namespace + "/none"}},
		{limited, "", exit.Unreachable, []string{
			"you may not create serviceaccounts/token for " + c.namespace + "/rouse-admin",
			"kubectl auth can-i create serviceaccounts/rouse-admin --subresource=token -n " + c.namespace,
		}},
		{c.certificate(), "none", exit.Usage, []string{`--service-account "none": use NAMESPACE/NAME`}},
		{c.certificate(), "a/b/c", exit.Usage, []string{"use NAMESPACE/NAME"}},
	} {
		_, err := c.loginAs(t, tc.user, tc.account)
		require.Equal(t, tc.code, exit.CodeOf(err), "%v", err)
		for _, want := range tc.want {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestTokenIsSentOnlyOverProtectedConnections(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://rouse.example.com":       "",
		"https://rouse.example.com/admin": "",
		"http://localhost:9091":           "",
		"http://127.0.0.1:9091":           "",
		"http://[::1]:9091":               "",
		"http://rouse.example.com":        "could be read on its way",
		"http://10.0.0.1:9091":            "could be read on its way",
		"http://localhost.example.com":    "could be read on its way",
		"ftp://rouse.example.com":         "could be read on its way",
		"rouse.example.com":               "use a URL such as",
		"https://me:secret@example.com":   "use a URL such as",
		"https://":                        "use a URL such as",
		"%":                               "use a URL such as",
	} {
		err := Options{Kubeconfig: "x", AdminURLs: []string{"https://example.com", url}}.checkAdmin()
		if want == "" {
			require.NoError(t, err, url)
			continue
		}
		require.Equal(t, exit.Usage, exit.CodeOf(err), url)
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, local := range []Options{{AdminURLs: []string{anyURL}}, {ServiceAccount: "a/b"}} {
		_, err := Open(local)
		require.Equal(t, exit.Usage, exit.CodeOf(err))
		require.ErrorContains(t, err, "add --context or --kubeconfig")
	}
}

// tenantOnly is a bridge for a user of the namespace shop.
func tenantOnly(t *testing.T) (admin Admin, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Query().Get("namespace") != "shop" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"error":"alice may not do that: ask for a RoleBinding"}`)
			return
		}
		_, _ = fmt.Fprint(w, map[string]string{
			"/v1/events":        `{"id":"1","kind":"delivered","namespace":"shop"}`,
			"/v1/subscriptions": `{"subscriptions":[{"namespace":"shop","name":"orders","consumer":true,"backlog":1}]}`,
			"/v1/deadletters/5": `{"sequence":5,"namespace":"shop"}`,
		}[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	return Admin{URL: server.URL, Token: "t"}, asked
}

func TestTenantSeesTheEventsOfItsNamespace(t *testing.T) {
	t.Parallel()
	admin, asked := tenantOnly(t)
	var notes []string
	wanted := Wanted{Since: -1, Within: "shop", Note: func(text string) { notes = append(notes, text) }}
	records, err := Recent(t.Context(), []Admin{admin}, wanted)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, journal.Delivered, records[0].Kind)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "only deliveries in namespace shop")
	require.EqualValues(t, 2, asked.Load())

	idle, err := New(admin).Idle(t.Context(), "shop")
	require.NoError(t, err)
	require.False(t, idle)
	found, err := New(admin).DeadLetter(t.Context(), "shop", 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, found.Sequence)
}

func TestForbiddenRequestReturnsTheBridgesError(t *testing.T) {
	t.Parallel()
	admin, asked := tenantOnly(t)
	_, ofAll := New(admin).Work(t.Context(), "")
	_, ofAnother := Recent(t.Context(), []Admin{admin}, Wanted{Since: -1, Within: "bank"})
	_, nowhere := Recent(t.Context(), []Admin{admin}, Wanted{Since: -1})
	_, purged := New(admin).Purge(t.Context(), Selection{Namespace: "shop"})
	for _, err := range []error{ofAll, ofAnother, nowhere, purged} {
		require.Equal(t, exit.Unreachable, exit.CodeOf(err))
		require.EqualError(t, err, "the bridge refuses that: alice may not do that: ask for a RoleBinding")
	}
	require.EqualValues(t, 5, asked.Load(), "only one request may be repeated for the namespace")
}

func TestATokenFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	_, err := New(Admin{URL: server.URL, Token: "t"}).Work(t.Context(), "")
	require.Equal(t, exit.Refused, exit.CodeOf(err))
	require.False(t, reached.Load())
}
