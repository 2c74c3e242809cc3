package dev

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exposes is an APIRule that leads everyone to the greeter.
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

// answer asks a URL, whose host is at the port of this machine whatever its name is.
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

func TestAPIRulesAreTakenAtTheLoopbackAddressAlone(t *testing.T) {
	t.Parallel()
	taken, err := listen(t.Context(), 0)
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	listener, moved, err := listenAt(t.Context(), flagAPIRulesPort, 0, portOf(taken))
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	require.True(t, moved, "another port than the one that is taken")
	for _, each := range []net.Listener{taken, listener} {
		require.Equal(t, "127.0.0.1", each.Addr().(*net.TCPAddr).IP.String())
	}
}

func TestAChangedAPIRuleCountsAtOnce(t *testing.T) {
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
	await(t, "it has another path", func() bool { return strings.HasSuffix(w.functions(t)["greeter"].Exposed[0], "/hi") })
	status, _ = answer(t, url)
	require.Equal(t, http.StatusNotFound, status)

	write(t, directory, "apirule.yaml", strings.ReplaceAll(exposes, "greeter", "nobody"))
	await(t, "its rule is closed", func() bool {
		return strings.Contains(w.out.String(), "apirule.yaml:9: APIRule orders/hello: Target service orders/nobody not found")
	})
	status, _ = answer(t, url)
	require.Equal(t, http.StatusServiceUnavailable, status)

	require.NoError(t, os.Remove(filepath.Join(directory, "apirule.yaml")))
	await(t, "it is gone", func() bool { return strings.Contains(w.out.String(), "apirule  hello    gone") })
	require.Contains(t, w.out.String(), "no problems any more")
}

func TestARunWithAnAPIRuleThatIsNotServedFails(t *testing.T) {
	t.Parallel()
	directory, out := t.TempDir(), &output{}
	write(t, directory, "fn.yaml", greeter(prints("up")))
	write(t, directory, "apirule.yaml", strings.Replace(exposes, "gateway: kyma-system/kyma-gateway", "timeout: 5", 1))
	write(t, directory, "event.json", `{"specversion":"1.0","id":"1","source":"shop","type":"order.received","data":{"id":"1"}}`)
	o := DefaultOptions()
	o.Directory, o.State, o.Out, o.Once, o.Cooldown = directory, t.TempDir(), out, true, time.Second
	o.Publish = []string{filepath.Join(directory, "event.json")}
	require.ErrorIs(t, Run(t.Context(), o), ErrFailed)
	require.Regexp(t, `run failed: 1 problems in .*apirule\.yaml:4: APIRule orders/hello: Either gateway or externalGateway must be specified`, out.String())
}

func TestARunWithAClosedRuleGoesOnAndNamesItsURL(t *testing.T) {
	t.Parallel()
	directory, out := t.TempDir(), &output{}
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
