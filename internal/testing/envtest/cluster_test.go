package envtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestClusterHasTheCRDs(t *testing.T) {
	cluster := New(WithKEDA())
	env := cluster.Environment(t)
	t.Cleanup(func() { require.NoError(t, cluster.stop()) })
	require.Same(t, env, cluster.Environment(t), "it must start once")

	for _, name := range []string{
		"functions.serverless.kyma-project.io",
		"subscriptions.eventing.kyma-project.io",
		"scaledobjects.keda.sh",
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: name}, crd))
	}
	first, second := env.Namespace(t), env.Namespace(t)
	require.NotEqual(t, first, second)
}

func TestMissingAssetsAreAnError(t *testing.T) {
	empty := t.TempDir()
	onlyEtcd := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(onlyEtcd, "etcd"), nil, 0o700))

	for name, dir := range map[string]string{
		"no directory":       "",
		"an empty directory": empty,
		"no kube-apiserver":  onlyEtcd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBEBUILDER_ASSETS", dir)
			_, err := New().start()
			require.ErrorIs(t, err, ErrNoAssets)
			require.ErrorContains(t, err, `run "make test" or set KUBEBUILDER_ASSETS`)
		})
	}
}

func TestAScriptRunsAtOnceWhileOtherProcessesStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var starters sync.WaitGroup
	defer starters.Wait()
	for starter := range 4 {
		starters.Go(func() {
			for n := range 50 {
				script := filepath.Join(dir, fmt.Sprintf("%d-%d", starter, n))
				if err := Script(script, "echo it runs"); err != nil {
					t.Errorf("write %s: %v", script, err)
					return
				}
				if out, err := exec.CommandContext(t.Context(), script).CombinedOutput(); err != nil || string(out) != "it runs\n" {
					t.Errorf("run %s: %v: %s", script, err, out)
					return
				}
			}
		})
	}
}

func TestWriteReturnsItsError(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Script(filepath.Join(t.TempDir(), "nowhere", "script"), ""), "nowhere")
}

func TestWatchesLagAndNothingElseDoes(t *testing.T) {
	const longest, pieces = 2 * time.Second, 100
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for n := range pieces {
			_, _ = fmt.Fprintln(w, n)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(server.Close)
	get := func(query string) (text string, lagged bool) {
		config := &rest.Config{}
		require.NoError(t, lag(config))
		transport, err := rest.TransportFor(config)
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/"+query, nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(request)
		require.NoError(t, err)
		defer response.Body.Close() //nolint:errcheck // read only
		read, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		_, lagged = response.Body.(*laggingBody)
		return string(read), lagged
	}
	var want strings.Builder
	for n := range pieces {
		fmt.Fprintln(&want, n)
	}
	for _, tc := range []struct {
		lag, query string
		lags       bool
	}{{longest.String(), "?watch=true", true}, {longest.String(), "?limit=500", false}, {"", "?watch=true", false}} {
		t.Setenv(lagVariable, tc.lag)
		text, lagged := get(tc.query)
		require.Equal(t, want.String(), text, "all comes, in its order")
		require.Equal(t, tc.lags, lagged)
	}
	for _, invalid := range []string{"soon", "-1s", "0"} {
		t.Setenv(lagVariable, invalid)
		require.EqualError(t, lag(&rest.Config{}), `ROUSE_WATCH_LAG="`+invalid+`": must be a positive duration, such as 1s`)
	}
}
