package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestProfilesAreServedOnLoopbackAddressesOnly(t *testing.T) {
	t.Parallel()
	for address, fits := range map[string]bool{
		"":                        true,
		"127.0.0.1:6060":          true,
		"127.0.0.2:0":             true,
		"[::1]:6060":              true,
		":6060":                   false,
		"0.0.0.0:6060":            false,
		"[::]:6060":               false,
		"10.0.0.1:6060":           false,
		"169.254.0.1:6060":        false,
		"localhost:6060":          false, // a name is whatever it resolves to
		"127.0.0.1":               false,
		"127.0.0.1:6060:6060":     false,
		"127.0.0.1.example.com:1": false,
	} {
		options := ProfilingOptions{Address: address}
		if err := options.Validate(); fits {
			require.NoError(t, err, address)
		} else {
			require.ErrorContains(t, err, "--pprof-address", address)
			require.ErrorContains(t, err, "kubectl port-forward", address)
		}
	}
}

func TestProfilesAreNotServedUnlessAskedFor(t *testing.T) {
	t.Parallel()
	ran := false
	require.NoError(t, new(ProfilingOptions).run(t.Context(), logr.Discard(), func(ctx context.Context) error {
		require.Equal(t, t.Context(), ctx, "nothing is put around it")
		ran = true
		return nil
	}))
	require.True(t, ran)
}

func TestProfilesCanBeTakenUntilTheProcessHasDrained(t *testing.T) {
	t.Parallel()
	address := net.JoinHostPort(loopback.Host, strconv.Itoa(loopback.Reserve(t)))
	ctx, stop := context.WithCancel(t.Context())
	options := ProfilingOptions{Address: address}
	require.NoError(t, options.run(ctx, testr.New(t), func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		for _, path := range []string{"", "heap", "goroutine?debug=1", "trace?seconds=0.01"} {
			require.Eventually(t, func() bool { // it listens beside us
				status, body := ask(t, "http://"+address+"/debug/pprof/"+path)
				return status == http.StatusOK && body != ""
			}, time.Minute, time.Millisecond, path)
		}
		return nil
	}))
	status, _ := ask(t, "http://"+address+"/debug/pprof/")
	require.Zero(t, status, "it ends with the process")
}

func ask(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := loopback.Default.Do(request)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestAnAddressForProfilesThatIsTakenEndsTheProcess(t *testing.T) {
	t.Parallel()
	taken := listen(t)
	options := ProfilingOptions{Address: taken.Addr().String()}
	err := options.run(t.Context(), testr.New(t), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorContains(t, err, "profiles: listen on "+taken.Addr().String())
}

func TestProfilesAnswerOnlyWhatIsTheirs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, host, path string
		want               int
	}{
		"the index":                     {http.MethodGet, "localhost:6060", "/debug/pprof/", http.StatusOK},
		"a profile by an address":       {http.MethodGet, "127.0.0.1:6060", "/debug/pprof/goroutine", http.StatusOK},
		"a profile by IPv6":             {http.MethodGet, "[::1]:6060", "/debug/pprof/heap", http.StatusOK},
		"a web page by a name of its":   {http.MethodGet, "attacker.example.com:6060", "/debug/pprof/heap", http.StatusForbidden},
		"a request without a host":      {http.MethodGet, "", "/debug/pprof/heap", http.StatusForbidden},
		"an address of the pod":         {http.MethodGet, "10.0.0.7:6060", "/debug/pprof/heap", http.StatusForbidden},
		"the command line":              {http.MethodGet, "localhost", "/debug/pprof/cmdline", http.StatusNotFound},
		"a profile that there is not":   {http.MethodGet, "localhost", "/debug/pprof/nothing", http.StatusNotFound},
		"another path":                  {http.MethodGet, "localhost", "/metrics", http.StatusNotFound},
		"an event that a sink is given": {http.MethodPost, "127.0.0.1:6060", "/debug/pprof/profile", http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, http.NoBody)
			request.Host = tc.host
			response := httptest.NewRecorder()
			profiles(t.Context()).ServeHTTP(response, request)
			require.Equal(t, tc.want, response.Code)
		})
	}
}

func TestAProfileIsTakenForAMinuteAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		response := httptest.NewRecorder()
		began := time.Now()
		profiles(t.Context()).ServeHTTP(response, requestDifference(t))
		require.Equal(t, http.StatusRequestTimeout, response.Code)
		require.Equal(t, maxProfileTime, time.Since(began))
	})
}

func TestAProfileEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		profiles(ctx).ServeHTTP(httptest.NewRecorder(), requestDifference(t))
		require.Equal(t, time.Second, time.Since(began))
	})
}

// requestDifference asks for what is allocated within an hour. Unlike a CPU profile, that has no goroutine of the runtime, which
// knows no virtual time.
func requestDifference(t *testing.T) *http.Request {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/allocs?seconds=3600", http.NoBody)
	request.Host = "localhost"
	return request
}

func TestNoServerFallsBackToTheDefaultMux(t *testing.T) {
	t.Parallel()
	err := Serve(t.Context(), Server{Name: "metrics", Addr: "127.0.0.1:0"}, testr.New(t))
	require.ErrorContains(t, err, "metrics: there is no handler")
}
