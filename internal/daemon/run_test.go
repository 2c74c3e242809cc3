package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

type fakeOptions struct {
	address string
	invalid error
}

func (o *fakeOptions) Flags(fs *flags.Set) {
	fs.String(&o.address, "address", "an address")
	fs.Check(func() error { return o.invalid })
}

func TestMainTurnsEveryEndIntoAnExitCode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args     []string
		invalid  error
		result   error
		wantCode int
		wantText string
	}{
		"a clean end":                     {wantCode: 0, wantText: `"msg":"stopped"`},
		"an end by signal":                {result: context.Canceled, wantCode: 0, wantText: `"msg":"stopped"`},
		"a failure is logged":             {result: errors.New("no stream"), wantCode: 1, wantText: `"err":"no stream"`},
		"an unknown flag":                 {args: []string{"--port=x"}, wantCode: 2, wantText: "unknown flag: --port"},
		"an argument that is not a flag":  {args: []string{"serve"}, wantCode: 2, wantText: `unknown argument "serve"`},
		"invalid options":                 {invalid: errors.New("--address: must not be empty"), wantCode: 2, wantText: "--address: must not be empty"},
		"a log level that does not exist": {args: []string{"--log-level=loud"}, wantCode: 2, wantText: `--log-level must be debug, info, warn or error, is "loud"`},
		"a log format that does not exist": {
			args: []string{"--log-format=xml"}, wantCode: 2, wantText: `--log-format must be json or text, is "xml"`,
		},
		"profiles that others could read": {
			args: []string{"--pprof-address=:6060"}, wantCode: 2, wantText: `--pprof-address ":6060": use an IP address of the loopback interface`,
		},
		"an unknown FIPS mode": {args: []string{"--fips-mode=yes"}, wantCode: 2, wantText: `--fips-mode "yes": use off, on or only`},
		"help":                 {args: []string{"--help"}, wantCode: 0, wantText: "--address"},
		"version":              {args: []string{"--version"}, wantCode: 0, wantText: "test "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			code := runMain(t.Context(), "test", tc.args, &stderr, &fakeOptions{invalid: tc.invalid},
				func(context.Context, logr.Logger) error { return tc.result })
			require.Equal(t, tc.wantCode, code, stderr.String())
			require.Contains(t, stderr.String(), tc.wantText)
		})
	}
}

func TestProcessDoesNotStartOutsideItsConfiguredFIPSMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []fips.Mode{fips.Off, fips.On, fips.Only} {
		var stderr bytes.Buffer
		ran := false
		code := runMain(t.Context(), "test", []string{"--fips-mode=" + string(mode)}, &stderr, &fakeOptions{}, func(context.Context, logr.Logger) error {
			ran = true
			return nil
		})
		// The tests run in any mode.
		if err := mode.Check(fips.Running()); err != nil {
			require.Equal(t, 2, code)
			require.False(t, ran)
			require.Contains(t, stderr.String(), "--fips-mode "+err.Error())
		} else {
			require.Zero(t, code, stderr.String())
			require.True(t, ran)
			require.Contains(t, stderr.String(), `"fips":"`+string(fips.Running().Mode())+`"`)
		}
	}
}

func TestDebugShowsV1AndInfoHidesIt(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"debug": `"level":"DEBUG"`, "info": ""} {
		var out bytes.Buffer
		options := LogOptions{Level: level, Format: "json"}
		options.NewLogger(&out).V(1).Info("detail")
		if want == "" {
			require.Empty(t, out.String())
		} else {
			require.Contains(t, out.String(), want)
		}
	}
}

func TestDependenciesOutliveTheDrainOfTheWork(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	groundEnded := make(chan struct{})
	err := RunOn(ctx, func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		select {
		case <-groundEnded:
			return errors.New("the ground ended before the work was drained")
		default:
			return nil
		}
	}, func(ctx context.Context) error {
		<-ctx.Done()
		close(groundEnded)
		return nil
	})
	require.NoError(t, err)
	<-groundEnded
}

func TestWorkIsDrainedWhenADependencyFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no port")
	err := RunOn(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}, func(context.Context) error { return broken })
	require.ErrorIs(t, err, broken)
}

func TestTheFirstErrorIsReturned(t *testing.T) {
	t.Parallel()
	first := errors.New("work failed")
	err := RunOn(t.Context(), func(context.Context) error { return first },
		func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("ended late")
		})
	require.ErrorIs(t, err, first)
}

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
		"localhost:6060":          false, // a name may resolve to anything
		"127.0.0.1":               false,
		"127.0.0.1:6060:6060":     false,
		"127.0.0.1.example.com:1": false,
	} {
		options := ProfilingOptions{Address: address}
		if err := flags.Validate(&options); fits {
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
		require.Equal(t, t.Context(), ctx, "the context must be unchanged")
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
			require.Eventually(t, func() bool { // it listens on another goroutine
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

func TestProcessEndsWhenTheAddressForProfilesIsInUse(t *testing.T) {
	t.Parallel()
	taken := listen(t)
	options := ProfilingOptions{Address: taken.Addr().String()}
	err := options.run(t.Context(), testr.New(t), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorContains(t, err, "profiles: listen on "+taken.Addr().String())
}

func TestProfilesServeOnlyTheirPathsToLoopbackHosts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, host, path string
		want               int
	}{
		"the index":                  {http.MethodGet, "localhost:6060", "/debug/pprof/", http.StatusOK},
		"a profile by an address":    {http.MethodGet, "127.0.0.1:6060", "/debug/pprof/goroutine", http.StatusOK},
		"a profile by IPv6":          {http.MethodGet, "[::1]:6060", "/debug/pprof/heap", http.StatusOK},
		"a web page by its own name": {http.MethodGet, "attacker.example.com:6060", "/debug/pprof/heap", http.StatusForbidden},
		"a request without a host":   {http.MethodGet, "", "/debug/pprof/heap", http.StatusForbidden},
		"an address of the pod":      {http.MethodGet, "10.0.0.7:6060", "/debug/pprof/heap", http.StatusForbidden},
		"the command line":           {http.MethodGet, "localhost", "/debug/pprof/cmdline", http.StatusNotFound},
		"an unknown profile":         {http.MethodGet, "localhost", "/debug/pprof/nothing", http.StatusNotFound},
		"another path":               {http.MethodGet, "localhost", "/metrics", http.StatusNotFound},
		"a POST of an event":         {http.MethodPost, "127.0.0.1:6060", "/debug/pprof/profile", http.StatusMethodNotAllowed},
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

// requestDifference requests the allocations within an hour. Unlike a CPU profile, it has no goroutine of the runtime,
// which does not run on virtual time.
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

func TestBuildPrefersLinkedValuesOverRecordedOnes(t *testing.T) {
	t.Parallel()
	checkout := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs.revision", Value: "15c0f58"}, {Key: "vcs.time", Value: "2026-11-23T20:04:05Z"}, {Key: "vcs.modified", Value: modified},
		}
	}
	module := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	for name, tc := range map[string]struct {
		linked Build
		info   *debug.BuildInfo
		want   Build
	}{
		"a release": {
			Build{Version: "v1.2.3", Commit: "abc", Time: "2026-01-02T03:04:05Z"},
			module("(devel)", checkout("false")...),
			Build{Version: "v1.2.3", Commit: "abc", Time: "2026-01-02T03:04:05Z"},
		},
		"go install":         {Build{}, module("v1.2.3"), Build{Version: "v1.2.3", Commit: unknown, Time: unknown}},
		"a checkout":         {Build{}, module("(devel)", checkout("false")...), Build{Version: "devel", Commit: "15c0f58", Time: "2026-11-23T20:04:05Z"}},
		"a changed checkout": {Build{}, module("", checkout("true")...), Build{Version: "devel", Commit: "15c0f58-dirty", Time: "2026-11-23T20:04:05Z"}},
		"unknown":            {Build{}, nil, Build{Version: "devel", Commit: unknown, Time: unknown}},
	} {
		tc.want.Go, tc.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
		require.Equal(t, tc.want, buildOf(tc.linked, tc.info), name)
	}
}

func TestProcessesPrintTheirBuild(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--version"}, nil} {
		var stderr bytes.Buffer
		code := runMain(t.Context(), "test", args, &stderr, &fakeOptions{}, func(context.Context, logr.Logger) error { return nil })
		require.Equal(t, 0, code, stderr.String())
		b := ThisBuild()
		for _, want := range []string{b.Version, b.Commit, b.Time, b.Go} {
			require.Contains(t, stderr.String(), want, args)
		}
	}
}

func TestMetricsContainTheBuild(t *testing.T) {
	t.Parallel()
	registry := NewRegistry()
	require.NoError(t, RegisterBuild(registry), "registering again must have no effect")
	families, err := registry.Gather()
	require.NoError(t, err)
	labels := map[string]string{}
	for _, family := range families {
		if family.GetName() != "rouse_build_info" {
			continue
		}
		require.Len(t, family.GetMetric(), 1)
		require.InDelta(t, 1, family.GetMetric()[0].GetGauge().GetValue(), 0)
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
	}
	require.Equal(t, map[string]string{"version": Version(), "commit": ThisBuild().Commit, "goversion": runtime.Version()}, labels)

	taken := prometheus.NewRegistry()
	require.NoError(t, taken.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "rouse_build_info", Help: "another"})))
	require.Error(t, RegisterBuild(taken), "another metric of that name")
}
