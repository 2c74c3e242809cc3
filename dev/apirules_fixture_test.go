package dev

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
)

const apiRulesTimeout = time.Minute

// apiRulesFixture serves the APIRules of a folder, whose Functions answer with their names.
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
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { // whatever the host is
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

// write changes files and has the folder applied. It returns what is wrong in them before they are decided on.
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

// get asks a host for a path.
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

// problems are all, with the names of files alone.
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

// await returns when it holds, which it learns by Changed.
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

// function is one of the namespace shop.
func function(name string) string {
	return `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: ` + name + `, namespace: shop}
spec: {runtime: nodejs22, source: {inline: {source: "module.exports = {main: () => 1}"}}}
`
}

// apiRule is one of a namespace and a host, with the rules as YAML.
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
