package dev

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/testing/output"
)

const apiRulesTimeout = time.Minute

// apiRulesFixture serves the APIRules of a folder, whose Functions respond with their names.
type apiRulesFixture struct {
	*APIRules

	t      *testing.T
	folder string
	client *http.Client
}

func runAPIRules(t *testing.T, files map[string]string) *apiRulesFixture {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &apiRulesFixture{t: t, folder: t.TempDir(), client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { // regardless of the host
			return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		},
	}}}
	f.APIRules = newAPIRules(apiRulesDeps{Listener: listener, Log: logr.Discard(), Serve: func(
		w http.ResponseWriter, r *http.Request, function types.NamespacedName, _ time.Duration,
	) {
		_, _ = fmt.Fprint(w, function, " ", r.Host)
	}})
	require.Empty(t, f.write(files))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		cancel()
		require.NoError(t, <-ended)
	})
	return f
}

// write writes files and applies the folder. It returns the problems found while reading.
func (f *apiRulesFixture) write(files map[string]string) []manifest.Problem {
	f.t.Helper()
	for name, content := range files {
		require.NoError(f.t, os.WriteFile(filepath.Join(f.folder, name), []byte(content), 0o600))
	}
	set, problems, err := manifest.Read(f.folder)
	require.NoError(f.t, err)
	f.Apply(set, problems)
	return problems
}

// get requests a path of a host.
func (f *apiRulesFixture) get(host, path string, headers ...string) (status int, body string) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+host+path, http.NoBody)
	require.NoError(f.t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := f.client.Do(request)
	require.NoError(f.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(f.t, err)
	return answer.StatusCode, string(text)
}

// problems returns all problems, with base names of files.
func (f *apiRulesFixture) problems() []string {
	var texts []string
	for _, problem := range f.Problems() {
		text := strings.ReplaceAll(problem.Error(), f.folder+string(filepath.Separator), "")
		if problem.Warning {
			text = "warning: " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// await waits for a condition, which is checked at each change.
func (f *apiRulesFixture) await(what string, holds func() bool) {
	f.t.Helper()
	timeout := time.After(apiRulesTimeout)
	for {
		changed := f.Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			require.FailNow(f.t, "it does not come to hold that "+what)
		}
	}
}

// function returns a Function of the namespace shop.
func function(name string) string {
	return `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: ` + name + `, namespace: shop}
spec: {runtime: nodejs22, source: {inline: {source: "module.exports = {main: () => 1}"}}}
`
}

// apiRule returns an APIRule with a namespace, a host and rules in YAML.
func apiRule(name, host, rules string) string {
	return `apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata: {name: ` + name + `, namespace: shop}
spec:
  gateway: kyma-system/kyma-gateway
  hosts: [` + host + `]
  service: {name: price, port: 80}
  rules: ` + rules + `
`
}

const open = `[{path: /*, methods: [GET], noAuth: true}]`

// exposes is an APIRule that gives public access to the greeter.
const exposes = `apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata: {name: hello, namespace: orders}
spec:
  gateway: kyma-system/kyma-gateway
  hosts: [hello]
  service: {name: greeter, port: 80}
  rules:
    - {path: /hello, methods: [GET], noAuth: true}
`

// answer requests a URL from the local port, regardless of its host name.
func answer(t *testing.T, url string) (status int, body string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestARequestToTheHostOfAnAPIRuleWakesItsFunction(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter("module.exports.main = event => event.extensions.request.headers.host"))
	write(t, directory, "apirule.yaml", exposes)
	w := run(t, directory)
	await(t, "it is exposed", func() bool { return len(w.functions(t)["greeter"].Exposed) == 1 })
	url := w.functions(t)["greeter"].Exposed[0]
	require.Regexp(t, `^http://hello\.localhost:\d+/hello$`, url)
	status, body := answer(t, url)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/hello"), body)
	status, _ = answer(t, strings.TrimSuffix(url, "hello")+"other")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, w.out.String(), "apirule  hello    "+strings.TrimSuffix(url, "/hello")+", from "+directory+"/apirule.yaml:1")
	await(t, "it sleeps", func() bool { return w.asleep(t, "greeter") })
}

func TestAPIRulesAreServedOnlyOnLoopback(t *testing.T) {
	t.Parallel()
	taken, err := listen(t.Context(), 0)
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	listener, moved, err := listenAt(t.Context(), flagAPIRulesPort, 0, portOf(taken))
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	require.True(t, moved, "a port other than the occupied one")
	for _, each := range []net.Listener{taken, listener} {
		require.Equal(t, "127.0.0.1", each.Addr().(*net.TCPAddr).IP.String())
	}
}

func TestChangedAPIRuleTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter("module.exports.main = () => 'hello'"))
	w := run(t, directory)
	write(t, directory, "apirule.yaml", exposes)
	await(t, "it is exposed", func() bool { return len(w.functions(t)["greeter"].Exposed) == 1 })
	url := w.functions(t)["greeter"].Exposed[0]
	status, _ := answer(t, url)
	require.Equal(t, http.StatusOK, status)

	write(t, directory, "apirule.yaml", strings.ReplaceAll(exposes, "/hello", "/hi"))
	await(t, "the new path", func() bool { return strings.HasSuffix(w.functions(t)["greeter"].Exposed[0], "/hi") })
	status, _ = answer(t, url)
	require.Equal(t, http.StatusNotFound, status)

	write(t, directory, "apirule.yaml", strings.ReplaceAll(exposes, "greeter", "nobody"))
	await(t, "its rule is closed", func() bool {
		return strings.Contains(w.out.String(), "apirule.yaml:9: APIRule orders/hello: Target service orders/nobody not found")
	})
	status, _ = answer(t, url)
	require.Equal(t, http.StatusServiceUnavailable, status)

	require.NoError(t, os.Remove(filepath.Join(directory, "apirule.yaml")))
	await(t, "the removal", func() bool { return strings.Contains(w.out.String(), "apirule  hello    gone") })
	require.Contains(t, w.out.String(), "no problems any more")
}

func TestARunWithAnAPIRuleThatIsNotServedFails(t *testing.T) {
	t.Parallel()
	directory, out := t.TempDir(), &output.Buffer{}
	write(t, directory, "fn.yaml", greeter(prints("up")))
	write(t, directory, "apirule.yaml", strings.Replace(exposes, "gateway: kyma-system/kyma-gateway", "timeout: 5", 1))
	write(t, directory, "event.json", `{"specversion":"1.0","id":"1","source":"shop","type":"order.received","data":{"id":"1"}}`)
	o := DefaultOptions()
	o.Directory, o.State, o.Out, o.Once, o.Cooldown = directory, t.TempDir(), out, true, time.Second
	o.Publish = []string{filepath.Join(directory, "event.json")}
	require.ErrorIs(t, Run(t.Context(), o), ErrFailed)
	require.Regexp(t, `run failed: 1 problems in .*apirule\.yaml:4: APIRule orders/hello: Either gateway or externalGateway must be specified`, out.String())
}

func TestRunWithAClosedRuleContinuesAndPrintsItsURL(t *testing.T) {
	t.Parallel()
	directory, out := t.TempDir(), &output.Buffer{}
	write(t, directory, "fn.yaml", greeter(prints("up")))
	write(t, directory, "apirule.yaml", strings.Replace(exposes, "noAuth: true", "extAuth: {authorizers: [oauth2-proxy]}", 1))
	write(t, directory, "event.json", `{"specversion":"1.0","id":"1","source":"shop","type":"order.received","data":{"id":"1"}}`)
	o := DefaultOptions()
	o.Directory, o.State, o.Out, o.Once, o.Cooldown = directory, t.TempDir(), out, true, time.Second
	o.Publish = []string{filepath.Join(directory, "event.json")}
	require.NoError(t, Run(t.Context(), o))
	require.Regexp(t, `apirule  hello +http://hello\.localhost:\d+, from .*apirule\.yaml:1`, out.String())
	require.Regexp(t, `warning: .*apirule\.yaml:9: APIRule orders/hello: Authorizer not found \(its rule answers 503`, out.String())
}

var price = types.NamespacedName{Namespace: "shop", Name: "price"}

func TestAPIRulesOfAFolderAreServedAtTheirHosts(t *testing.T) {
	t.Parallel()
	f := runAPIRules(t, map[string]string{
		"fn.yaml": function("price"),
		"short.yaml": apiRule("short", "price", `
  - {path: "/prices/{*}", methods: [GET], noAuth: true}
  - {path: /prices, methods: [POST], noAuth: true}`),
		"earlier.yaml": strings.Replace(apiRule("full", "price.example.com", open), "/v2", "/v2alpha1", 1),
		"foreign.yaml": strings.Replace(apiRule("foreign", "foreign", open), "name: price,", "name: price, namespace: shop,", 1),
	})
	require.Empty(t, f.problems())
	status, body := f.get("price.localhost", "/prices/tea")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "shop/price price.localhost", body)
	status, _ = f.get("price.localhost", "/other")
	require.Equal(t, http.StatusNotFound, status)
	for _, host := range []string{"price.example.com:8070", "Price.example.com.localhost:8070"} {
		status, body = f.get(host, "/any")
		require.Equal(t, http.StatusOK, status, host)
		require.Equal(t, "shop/price price.example.com:8070", body, host)
	}

	urls := map[string]string{}
	for _, each := range f.Status() {
		urls[each.Name] = strings.ReplaceAll(each.URL, f.at(), "")
		require.Equal(t, 1, each.At.Line)
	}
	require.Equal(t, map[string]string{
		"short": "http://price.localhost", "full": "http://price.example.com.localhost", "foreign": "http://foreign.localhost",
	}, urls)
	require.Equal(t, []string{
		"http://foreign.localhost" + f.at() + "/", "http://price.example.com.localhost" + f.at() + "/",
		"http://price.localhost" + f.at() + "/prices/{*}", "http://price.localhost" + f.at() + "/prices",
	}, f.URLs(price))
}

// DNS rebinding: a page of another site, whose name resolves to this machine, sends that name.
func TestOnlyHostsOfAPIRulesAreServed(t *testing.T) {
	t.Parallel()
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", open)})
	for _, host := range []string{
		"evil.example", "localhost" + f.at(), "127.0.0.1" + f.at(), "price", "price.localhost.evil.example", "price.localhost.localhost", "price.evil.example", "other.localhost",
	} {
		status, body := f.get(host, "/")
		require.Equal(t, http.StatusNotFound, status, host)
		require.Empty(t, body)
	}
}

func TestRuleForAServiceOutsideOfTheFolderIsClosed(t *testing.T) {
	t.Parallel()
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", `
  - path: /orders
    methods: [GET]
    service: {name: orders, port: 80}
    noAuth: true
  - path: /other
    methods: [GET]
    service: {name: price, port: 8080}
    noAuth: true
  - path: /mine
    methods: [GET]
    extAuth: {authorizers: [oauth2-proxy]}
  - path: /price
    methods: [GET]
    noAuth: true`)})
	for _, path := range []string{"/orders", "/other", "/mine"} {
		status, _ := f.get("price.localhost", path)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
	}
	status, _ := f.get("price.localhost", "/price")
	require.Equal(t, http.StatusOK, status)
	const advice = " (its rule answers 503: local mode has the Functions of the folder, and no authorizers)"
	require.ElementsMatch(t, []string{
		"warning: rule.yaml:9: APIRule shop/price: Target service shop/orders not found" + advice,
		"warning: rule.yaml:15: APIRule shop/price: Service shop/price has no TCP port 8080" + advice,
		"warning: rule.yaml:19: APIRule shop/price: Authorizer not found" + advice,
	}, f.problems())
	require.Equal(t, []string{"http://price.localhost" + f.at() + "/price"}, f.URLs(price))
}

func TestInvalidAPIRuleIsReportedWithItsLineAndNotServed(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"fn.yaml": function("price"), "a.yaml": apiRule("a", "price", open),
		"b.yaml": apiRule("b", "price.localhost", open),
		"c.yaml": strings.Replace(apiRule("c", "c", open), "gateway: kyma-system/kyma-gateway", "timeout: 5", 1),
	}
	f := runAPIRules(t, files)
	const advice = " (correct it: until then this APIRule is not served)"
	require.Equal(t, []string{
		"b.yaml:6: APIRule shop/b: Host is occupied by another APIRule shop/a" + advice,
		"c.yaml:4: APIRule shop/c: Either gateway or externalGateway must be specified" + advice,
	}, f.problems())
	for _, each := range f.Status() {
		require.Equal(t, each.Name == "a", each.URL != "", each.Name)
	}
	status, _ := f.get("c.localhost", "/")
	require.Equal(t, http.StatusNotFound, status)

	f.write(map[string]string{"b.yaml": apiRule("b", "b", open), "c.yaml": apiRule("c", "c", open)})
	require.Empty(t, f.problems())
	status, _ = f.get("c.localhost", "/")
	require.Equal(t, http.StatusOK, status)
}

func TestTemporarilyInvalidObjectIsServedAsBefore(t *testing.T) {
	t.Parallel()
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", open)})
	for name, broken := range map[string]map[string]string{
		"the APIRule is malformed YAML":    {"rule.yaml": apiRule("price", "price", open) + "{"},
		"the CRD refuses the APIRule":      {"rule.yaml": apiRule("price", "price", `[{path: /*, methods: [GET]}]`)},
		"the APIRule has an unknown field": {"rule.yaml": apiRule("price", "price", open) + "  nonsense: 1\n"},
		"the CRD refuses the Function":     {"fn.yaml": strings.Replace(function("price"), "nodejs22", "cobol", 1)},
		"the files are restored":           {"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", open)},
	} {
		f.write(broken)
		status, body := f.get("price.localhost", "/")
		require.Equal(t, http.StatusOK, status, "%s: %s", name, body)
	}
	f.write(map[string]string{"rule.yaml": ""})
	status, _ := f.get("price.localhost", "/")
	require.Equal(t, http.StatusNotFound, status)
	require.Empty(t, f.Status())
}

// at returns the port as a part of URLs.
func (f *apiRulesFixture) at() string {
	_, port, _ := strings.Cut(f.Status()[0].URL, "localhost")
	return port
}

// issuer is a local issuer that serves its key and signs tokens.
type issuer struct {
	*httptest.Server

	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	point, err := key.PublicKey.Bytes()
	require.NoError(t, err)
	set := `{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"` + encoded(point[1:33]) + `","y":"` + encoded(point[33:]) + `"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(set)) }))
	t.Cleanup(server.Close)
	return &issuer{server, key}
}

func encoded(bytes []byte) string { return base64.RawURLEncoding.EncodeToString(bytes) }

func (i *issuer) token(t *testing.T) string {
	t.Helper()
	text := encoded([]byte(`{"alg":"ES256","kid":"1"}`)) + "." + encoded([]byte(`{"iss":"`+i.URL+`","sub":"Ada","exp":4102444800}`))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	require.NoError(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + encoded(signature)
}

func tokensOf(uri string) string {
	return strings.ReplaceAll(`[{path: /*, methods: [GET], jwt: {authentications: [{issuer: "URI", jwksUri: "URI/keys"}]}}]`, "URI", uri)
}

func TestTokensOfAnIssuerOnThisMachineAreAccepted(t *testing.T) {
	t.Parallel()
	by := newIssuer(t)
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", tokensOf(by.URL))})
	status, _ := f.get("price.localhost", "/")
	require.Equal(t, http.StatusForbidden, status, "a request without a token")
	status, _ = f.get("price.localhost", "/", "Authorization", "Bearer "+newIssuer(t).token(t))
	require.Equal(t, http.StatusUnauthorized, status, "a token of another issuer")
	status, _ = f.get("price.localhost", "/", "Authorization", "Bearer "+by.token(t))
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, f.problems())
}

func TestKeysThatCannotBeFetchedAreReportedWithTheirLine(t *testing.T) {
	t.Parallel()
	gone := newIssuer(t)
	gone.Close()
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", tokensOf(gone.URL))})
	f.await("the issuer's keys are reported", func() bool { return len(f.problems()) > 0 })
	require.Equal(t, []string{
		"warning: rule.yaml:8: APIRule shop/price: Its keys cannot be fetched, and tokens by them are refused: the connection failed",
	}, f.problems())
	f.write(map[string]string{"rule.yaml": apiRule("price", "price", open)})
	f.await("it is over", func() bool { return len(f.problems()) == 0 })
}
