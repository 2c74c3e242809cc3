package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// served is a rouse dashboard.
type served struct {
	url, token string
}

// startDashboard runs rouse dashboard until the test ends.
func startDashboard(t *testing.T, args ...string) served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	var errs strings.Builder
	ended := make(chan int, 1)
	go func() {
		code := Main(ctx, append([]string{"dashboard"}, args...), Streams{In: strings.NewReader(""), Out: writer, Err: &errs, ProgressAfter: unhurried})
		_ = writer.Close()
		ended <- code
	}()
	t.Cleanup(func() {
		cancel()
		require.Zero(t, <-ended)
	})
	printed := make([]byte, 200)
	n, err := reader.Read(printed)
	require.NoError(t, err)
	url, token, found := strings.Cut(strings.TrimSpace(string(printed[:n])), "/#")
	require.True(t, found, "the address has the token behind a #")
	return served{url, token}
}

func (s served) ask(t *testing.T, method, path, body string, into any) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if body == "" {
		request.Body, request.ContentLength = http.NoBody, 0
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	if into != nil {
		require.NoError(t, json.NewDecoder(response.Body).Decode(into))
	}
	return response.StatusCode
}

const shownFunctionManifest = `
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: pricing}
spec:
  runtime: nodejs22
  scaleConfig: {minReplicas: 0, maxReplicas: 4}
  env: [{name: API_KEY, value: a-secret-value}]
  source: {inline: {source: "module.exports.main = () => 'priced'"}}
`

func TestTheDashboardOfAClusterShowsWhatTheUserMayRead(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, shownFunctionManifest)
	w := newFixture(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	at := startDashboard(t, "--kubeconfig", c.kubeconfig, "--admin-url", w.instance.Admin)
	var snapshot dashboard.Snapshot
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodGet, "/api/v1/snapshot", "", &snapshot))
	require.Len(t, snapshot.Functions, 1)
	require.Equal(t, "pricing", snapshot.Functions[0].Name)
	require.Equal(t, 4, snapshot.Functions[0].Max)
	var detail dashboard.FunctionDetail
	path := "/api/v1/functions/" + c.namespace + "/pricing"
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodGet, path, "", &detail))
	require.Equal(t, []string{"API_KEY"}, detail.Environment)
	require.Contains(t, detail.Files[0].Text, "priced")
	require.Equal(t, http.StatusNotFound, at.ask(t, http.MethodGet, "/api/v1/functions/other/pricing", "", nil))
	var about struct{ User dashboard.User }
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodGet, "/api/v1/about", "", &about))
	require.False(t, about.User.Changes, "it changes nothing without --allow-changes")
	require.Equal(t, http.StatusForbidden, at.ask(t, http.MethodPost, "/api/v1/deadletters/purge", `{"sequences":[1]}`, nil))
	at.token += "x"
	require.Equal(t, http.StatusUnauthorized, at.ask(t, http.MethodGet, "/api/v1/snapshot", "", nil))
}

func TestTheDashboardOfAClusterSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, shownFunctionManifest)
	at := startDashboard(t, "--kubeconfig", c.kubeconfig)
	var snapshot dashboard.Snapshot
	require.Equal(t, http.StatusOK, at.ask(t, http.MethodGet, "/api/v1/snapshot", "", &snapshot))
	require.Len(t, snapshot.Functions, 1, "what can be read is shown")
	require.Len(t, snapshot.Problems, 1)
	require.Contains(t, snapshot.Problems[0].Message, "there is no eventbridge")

	refused := c.run(t, "dashboard", "--context", "limited")
	require.Equal(t, int(exit.Unreachable), refused.code)
	require.Contains(t, refused.err, "functions")
	nowhere := run(t, "", "dashboard")
	require.Contains(t, nowhere.err, "name one with --context or --kubeconfig")
}
