package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/activation"
)

func discard() logr.Logger { return logr.Discard() }

func TestATenantSeesItsOwnNamespaceAndNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	own, other := r.tenant(t, rules()), r.tenant(t, rules())
	for at, namespace := range []string{own.namespace, other.namespace} {
		r.letters.add(uint64(at+1), namespace)
		r.records.Add(journal.Record{
			Kind: journal.Delivered, Time: time.Now(), ID: "event-of-" + namespace, Source: "shop", Type: "order", Namespace: namespace, Subscription: "orders",
		})
	}
	b := r.browser(t)
	b.logIn(t, own)
	require.Eventually(t, func() bool {
		_, events := b.ask(t, http.MethodGet, "/api/v1/events", "")
		return strings.Contains(events, "event-of-"+own.namespace)
	}, timeout, 100*time.Millisecond, "the journal of the bridge is followed")
	for path, shows := range map[string]string{
		"/api/v1/snapshot": `"name":"pricing"`, "/api/v1/events": "event-of-", "/api/v1/deadletters": "event-of-",
		"/api/v1/deadletters/1": "secret-of-", "/api/v1/functions/" + own.namespace + "/pricing": "module.exports", "/api/v1/about": "reader",
	} {
		status, text := b.ask(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, status, path+text)
		require.Contains(t, text, shows, path)
		require.NotContains(t, text, other.namespace, path)
	}
	elsewhere := "?namespace=" + other.namespace
	for path, want := range map[string]int{
		"/api/v1/deadletters/2": http.StatusNotFound, "/api/v1/deadletters" + elsewhere: http.StatusForbidden,
		"/api/v1/functions/" + other.namespace + "/pricing":     http.StatusNotFound,
		"/api/v1/functions/" + other.namespace + "/pricing/log": http.StatusNotFound,
		"/api/v1/events" + elsewhere:                            http.StatusOK,
		"/api/v1/event?id=event-of-" + other.namespace:          http.StatusNotFound,
		"/api/v1/trace?id=event-of-" + other.namespace:          http.StatusNotFound,
	} {
		status, text := b.ask(t, http.MethodGet, path, "")
		require.Equal(t, want, status, path+text)
		require.NotContains(t, text, "event-of-"+other.namespace+`"`, path)
		require.NotContains(t, text, "secret-of-", path)
	}
	status, text := b.ask(t, http.MethodPost, "/api/v1/namespace", `{"namespace":"`+other.namespace+`"}`)
	require.Equal(t, http.StatusForbidden, status, text)
	status, _ = b.ask(t, http.MethodPost, "/api/v1/namespace", `{"namespace":""}`)
	require.Equal(t, http.StatusForbidden, status, "nor all namespaces")
}

func TestALiveStreamHasTheRecordsOfTheTenantAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	own, other := r.tenant(t, rules()), r.tenant(t, rules())
	b := r.browser(t)
	b.logIn(t, own)
	stream := b.send(t, http.MethodGet, "/api/v1/events/live", "") //nolint:bodyclose // send does
	require.Equal(t, http.StatusOK, stream.StatusCode)
	for _, namespace := range []string{other.namespace, own.namespace} {
		r.records.Add(journal.Record{Kind: journal.Delivered, Time: time.Now(), ID: "event-of-" + namespace, Namespace: namespace, Subscription: "orders"})
	}
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() {
		require.NotContains(t, lines.Text(), "event-of-"+other.namespace)
		if strings.Contains(lines.Text(), "event-of-"+own.namespace) {
			return
		}
	}
	require.Fail(t, "the stream has ended", lines.Err())
}

func TestLoginTakesATokenOfAUserWhoMayReadAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	one, without := r.tenant(t, rules()), r.tenant(t, nil)
	b := r.browser(t)
	b.logIn(t, one)
	ours := b.client.Jar
	b = r.browser(t)
	ask := func(body string) (int, string) { return b.ask(t, http.MethodPost, "/api/v1/login", body) }
	for name, c := range map[string]struct {
		body, says string
		status     int
	}{
		"no token":                       {`{"token":" "}`, "paste a token", http.StatusBadRequest},
		"no JSON":                        {`token=x`, "not what this path takes", http.StatusBadRequest},
		"a made up token":                {`{"token":"x"}`, "not valid in the cluster", http.StatusUnauthorized},
		"a cut token":                    {`{"token":"` + one.token[:100] + `"}`, "not valid in the cluster", http.StatusUnauthorized},
		"a token for bridges":            {`{"token":"` + r.tokenOf(t, one.account, identity.Audience) + `"}`, "log in again", http.StatusBadGateway},
		"a user without rights":          {`{"token":"` + without.token + `"}`, "ask for a RoleBinding", http.StatusForbidden},
		"another namespace":              {`{"token":"` + one.token + `","namespace":"kube-system"}`, "may not list Functions", http.StatusForbidden},
		"what is no namespace":           {`{"token":"` + one.token + `","namespace":"../x"}`, "no namespace can", http.StatusBadRequest},
		"more than a token can have":     {`{"token":"` + strings.Repeat("x", 20<<10) + `"}`, "larger than", http.StatusRequestEntityTooLarge},
		"a token that breaks its header": {`{"token":"a\nb"}`, "not valid in the cluster", http.StatusUnauthorized},
	} {
		status, text := ask(c.body)
		require.Equal(t, c.status, status, name+text)
		require.Contains(t, text, c.says, name)
		status, text = b.ask(t, http.MethodGet, "/api/v1/snapshot", "")
		require.Equal(t, http.StatusUnauthorized, status, name)
		require.Contains(t, text, `"login":"token"`)
	}
	b.header.Set("Content-Type", "text/plain")
	status, _ := ask(`{"token":"` + one.token + `"}`)
	require.Equal(t, http.StatusUnsupportedMediaType, status)
	b.header = http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"cross-site"}}
	b.client.Jar = ours
	for _, path := range []string{"login", "logout", "namespace"} {
		status, _ := b.ask(t, http.MethodPost, "/api/v1/"+path, `{"token":"`+one.token+`"}`)
		require.Equal(t, http.StatusForbidden, status, path)
	}
	b.header.Set("Sec-Fetch-Site", "same-site")
	status, _ = b.ask(t, http.MethodGet, "/api/v1/snapshot", "")
	require.Equal(t, http.StatusForbidden, status)
	require.NotContains(t, r.log.String(), one.token)
	require.NotContains(t, r.log.String(), without.token)
}

func TestTheCookieOfASessionIsForThisHostAndNoScript(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	one := r.tenant(t, rules())
	b := r.browser(t)
	b.logIn(t, one)
	response := b.send(t, http.MethodPost, "/api/v1/login", `{"token":"`+one.token+`"}`) //nolint:bodyclose // send does
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Len(t, response.Cookies(), 1)
	cookie := response.Cookies()[0]
	require.True(t, strings.HasPrefix(cookie.Name, "__Host-"))
	require.True(t, cookie.HttpOnly)
	require.True(t, cookie.Secure)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.Equal(t, "/", cookie.Path)
	require.Empty(t, cookie.Domain)
	require.GreaterOrEqual(t, len(cookie.Value), 26)
	require.NotContains(t, one.token, cookie.Value)

	status, _ := b.ask(t, http.MethodPost, "/api/v1/logout", "{}")
	require.Equal(t, http.StatusOK, status)
	b.header.Set("Cookie", cookie.Name+"="+cookie.Value) // somebody has kept it
	status, text := b.ask(t, http.MethodGet, "/api/v1/snapshot", "")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, text, "you have logged out")
}

func TestASessionAndItsStreamsEndWithTheToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	one := r.tenant(t, rules())
	b := r.browser(t)
	b.client.Timeout = 0
	b.logIn(t, one)
	stream := b.send(t, http.MethodGet, "/api/v1/live", "") //nolint:bodyclose // send does
	require.Equal(t, http.StatusOK, stream.StatusCode)
	require.NoError(t, r.Client.Delete(t.Context(), one.account))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stream.Body)
		for lines.Scan() { // until it ends
		}
	}()
	select {
	case <-ended:
	case <-time.After(timeout):
		require.Fail(t, "the stream goes on")
	}
	status, text := b.ask(t, http.MethodGet, "/api/v1/snapshot", "")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, text, "your token is not valid any more")
}

func TestAttemptsOfOneAddressStopNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.trustedProxies = []string{"127.0.0.0/8"} })
	one := r.tenant(t, rules())
	attacker, user := r.browser(t), r.browser(t)
	attacker.header.Set("X-Forwarded-For", "203.0.113.7, 198.51.100.1")
	user.header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.7")
	statuses := map[int]int{}
	for range 100 {
		status, _ := attacker.ask(t, http.MethodPost, "/api/v1/login", `{"token":"guess"}`)
		statuses[status]++
	}
	require.Greater(t, statuses[http.StatusTooManyRequests], 50)
	require.Less(t, statuses[http.StatusUnauthorized], 50)
	user.logIn(t, one)
}

func TestNobodyChangesAnythingByDefault(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	one := r.tenant(t, rules())
	r.letters.add(1, one.namespace)
	b := r.browser(t)
	b.logIn(t, one)
	for path, body := range map[string]string{
		"deadletters/redrive": `{"sequences":[1]}`, "deadletters/purge": `{"sequences":[1]}`, "publish": `{}`,
		"functions/" + one.namespace + "/pricing/call": `{"method":"GET","path":"/"}`,
	} {
		status, text := b.ask(t, http.MethodPost, "/api/v1/"+path, body)
		require.Equal(t, http.StatusForbidden, status, path)
		require.Contains(t, text, "change nothing")
	}
	require.Len(t, r.letters.in("", 1), 1)
}

func TestAChangeIsMadeWithTheRightsOfItsUserAndNoted(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.changes = true })
	editor := r.tenant(t, rules())
	viewer := r.tenant(t, slices.DeleteFunc(rules(), func(rule rbacv1.PolicyRule) bool { return rule.Verbs[0] == "create" }))
	r.letters.add(1, editor.namespace)
	r.letters.add(2, viewer.namespace)
	b := r.browser(t)
	b.logIn(t, editor)
	status, text := b.ask(t, http.MethodPost, "/api/v1/deadletters/redrive", `{"sequences":[1,2]}`)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"done":1,"gone":1}`, text, "that of another namespace does not exist")
	require.Len(t, r.letters.in(viewer.namespace, 2), 1)

	user := "system:serviceaccount:" + editor.namespace + ":reader"
	require.Eventually(t, func() bool {
		events := &corev1.EventList{}
		if r.Client.List(context.Background(), events, client.InNamespace(editor.namespace)) != nil {
			return false
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "DeadLettersRedriven" && strings.Contains(e.Message, user) && e.InvolvedObject.Kind == "Subscription" && e.InvolvedObject.UID != ""
		})
	}, timeout, 100*time.Millisecond, "an Event names the user")
	require.Regexp(t, `dead letters redriven.*`+user, r.log.String())
	require.NotContains(t, r.log.String(), editor.token)

	b = r.browser(t)
	b.logIn(t, viewer)
	_, text = b.ask(t, http.MethodPost, "/api/v1/deadletters/redrive", `{"sequences":[2]}`)
	require.Contains(t, text, "may not create deadletters.rouse.run/redrive")
	require.Len(t, r.letters.in(viewer.namespace, 2), 1)
	status, text = b.ask(t, http.MethodPost, "/api/v1/functions/"+viewer.namespace+"/pricing/call", `{"method":"GET","path":"/"}`)
	require.Contains(t, text, "may not create functions.rouse.run/invoke")
	require.Equal(t, http.StatusForbidden, status)
}

// slice leads to a port of a gateway.
func (r *rig) slice(t *testing.T, namespace, uid string, port int32) {
	t.Helper()
	require.NoError(t, r.Client.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pricing-rouse-ipv4", Labels: map[string]string{
			discoveryv1.LabelServiceName: "pricing", discoveryv1.LabelManagedBy: activation.ManagedBy, "serverless.kyma-project.io/uuid": uid,
		}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(port)}},
	}))
}

// startGateway serves at one of the ports that Functions have at gateways.
func startGateway(t *testing.T, handler http.Handler) int32 {
	t.Helper()
	for port := int32(activation.FirstPort); port <= activation.LastPort; port++ {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if err != nil {
			continue
		}
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler, ReadHeaderTimeout: timeout}}
		server.Start()
		t.Cleanup(server.Close)
		return port
	}
	require.Fail(t, "there is no free port")
	return 0
}

func TestAFunctionIsCalledThroughAGatewayThatKnowsIt(t *testing.T) {
	t.Parallel()
	namespace := ""
	r := newRig(t, func(o *options) { o.changes, namespace = true, o.rouseNamespace })
	one := r.tenant(t, rules())
	var uid atomic.Value
	uid.Store("another Function's")
	port := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/healthz" {
			w.Header().Set(activation.HeaderFunction, uid.Load().(string)) //nolint:forcetypeassert // nothing else is stored
			return
		}
		_, _ = fmt.Fprint(w, "called at ", req.URL.Path)
	}))
	r.pod(t, namespace, "gateway", map[string]int32{"http": 8080})
	function := &unstructured.Unstructured{}
	function.SetAPIVersion("serverless.kyma-project.io/v1alpha2")
	function.SetKind("Function")
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: one.namespace, Name: "pricing"}, function))
	r.slice(t, one.namespace, string(function.GetUID()), port)
	b := r.browser(t)
	b.logIn(t, one)
	call := func() (int, string) {
		return b.ask(t, http.MethodPost, "/api/v1/functions/"+one.namespace+"/pricing/call", `{"method":"GET","path":"/7"}`)
	}
	status, text := call()
	require.Equal(t, http.StatusBadGateway, status, "a port that a tenant has named is that of its Function, or is not called")
	require.Contains(t, text, "another Function")
	uid.Store(string(function.GetUID()))
	status, text = call()
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, "called at /7")
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	o := defaultOptions()
	o.trustedProxies = []string{"10.0.0.0/8", "2001:db8::/32"}
	require.NoError(t, o.parseProxies())
	require.Len(t, o.proxies, 2)
	require.IsType(t, dashboard.Proxies{}, o.proxies)
	o.trustedProxies = []string{"10.0.0.0"}
	require.ErrorContains(t, o.parseProxies(), "--trusted-proxies")
}
