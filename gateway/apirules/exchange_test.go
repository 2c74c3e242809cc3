package apirules

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// within is an open rule with little time.
func within(timeout time.Duration, to apirule.Backend, path string) apirule.Rule {
	rule := open(to, path, "GET", "POST")
	rule.Timeout = timeout
	return rule
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestAnAnswerThatHasNotBegunInTimeIs504(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, within(20*time.Millisecond, f.service.address, "/service"), within(20*time.Millisecond, f.function.address, "/function"))
	f.service.answers(hangs)
	f.function.answers(hangs)
	for _, path := range []string{"/service", "/function"} {
		got := f.get(path)
		require.Equal(t, http.StatusGatewayTimeout, got.StatusCode, path)
		require.Equal(t, "upstream request timeout", got.text, path)
	}
}

func TestAnAnswerThatIsLongerThanItsTimeIsCut(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, within(time.Second, f.service.address, "/*"))
	f.service.answers(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL, nil)
	require.NoError(t, err)
	r.Host = shopHost
	response, err := f.server.Client().Transport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the caller sees that it is not whole")
	require.Equal(t, "data: one\n\n", string(text))
}

func TestAFunctionHasTheTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	waits := make(chan time.Duration, 1)
	f := start(t, func(d *Deps, _ *Options) {
		d.Activate = func(w http.ResponseWriter, _ *http.Request, _ types.NamespacedName, wait time.Duration) {
			waits <- wait
			w.Header().Set("Rouse-Refused", "timeout")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	f.serve(shopHost, within(time.Hour, f.function.address, "/*"))
	got := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.Equal(t, "timeout", got.Header.Get("Rouse-Refused"), "headers of the activator pass")
	require.LessOrEqual(t, <-waits, time.Hour)
}

func TestTheTimeOfAnUploadDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, left := startDeadline(t.Context(), time.Minute)
		defer left.stop()
		reader, writer := io.Pipe()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", reader)
		upload := &body{forward.NewBody(r, httptest.NewRecorder(), 0), left, nil, nil}
		go func() {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(writer, "order")
			time.Sleep(time.Hour)
			_ = writer.Close()
		}()
		time.Sleep(20 * time.Second) // a pod is waited for
		text, err := io.ReadAll(upload)
		require.NoError(t, err)
		require.Equal(t, "order", string(text))
		require.Equal(t, 40*time.Second, left.remaining())
		time.Sleep(39 * time.Second)
		synctest.Wait()
		require.NoError(t, ctx.Err())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.True(t, ranOut(ctx))
	})
}

func TestATimeThatIsOverStaysOver(t *testing.T) {
	t.Parallel()
	ctx, left := startDeadline(t.Context(), 20*time.Millisecond)
	defer left.stop()
	left.pause()
	require.Positive(t, left.remaining())
	left.resume()
	<-ctx.Done()
	require.True(t, ranOut(ctx))
	left.pause()
	left.resume() // is over for good
	require.True(t, ranOut(ctx))

	ctx, left = startDeadline(t.Context(), time.Hour)
	left.unlimited()
	left.resume()
	require.NoError(t, ctx.Err())
	left.stop()
	require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	require.False(t, ranOut(ctx))
}

func TestACallerWhoStopsSendingHisBodyIsCutOff(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Deps, o *Options) { o.BodyTimeout = 20 * time.Millisecond })
	f.serve(shopHost, within(time.Hour, f.service.address, "/*"))
	ended := make(chan error, 1)
	f.service.answers(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	conn := f.dial()
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: shop.example.com\r\nContent-Length: 10\r\n\r\norder")
	require.NoError(t, err)
	require.Error(t, <-ended, "the backend sees that the body is not whole")
}

func (f *fixture) dial() net.Conn {
	f.t.Helper()
	conn, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", f.server.Listener.Addr().String())
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAnUpgradedConnectionHasNoLimit(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, within(time.Second, f.service.address, "/*"))
	f.service.answers(echo)
	f.requireEchoAfter(1500 * time.Millisecond)
}

func TestAnUpgradeHasToBeAllowedLikeEveryRequest(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	f.serve(shopHost, withTokens(f.service.address, "/*", i.jwt()))
	got := f.raw("GET / HTTP/1.1\r\nHost: shop.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.Equal(t, http.StatusForbidden, got.StatusCode)
	require.Zero(t, f.service.requests())
}

func TestAServiceThatRefusesConnectionsIsUnavailable(t *testing.T) {
	t.Parallel()
	f := start(t)
	refusing := f.service.address
	refusing.Port = int32(loopback.Reserve(t))
	f.serve(shopHost, open(refusing, "/*", "GET"))
	got := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.NotContains(t, got.text, "127.0.0.1")
}

func TestAServiceAtAnAddressOfThisMachineIsNotDialled(t *testing.T) {
	t.Parallel()
	f := start(t, func(d *Deps, _ *Options) { d.Guard.AllowLoopback = false })
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	require.Equal(t, http.StatusServiceUnavailable, f.get("/").StatusCode)
	require.Zero(t, f.service.requests())
}

func TestARequestIsRepeatedOnlyWhenNoConnectionCouldBeMade(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET", "POST"))
	f.service.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	got := f.get("/")
	require.Equal(t, http.StatusBadGateway, got.StatusCode)
	require.Equal(t, 1, f.service.requests())

	f.service.answers(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	dials, failing := 0, dialAttempts-1
	transport := forward.NewTransport(func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials <= failing {
			return nil, &net.OpError{Op: "dial", Err: io.EOF}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}, false)
	defer transport.CloseIdleConnections()
	to := &visit{x: &exchange{all: &Server{services: transport}}, address: net.JoinHostPort(loopback.Host, strconv.Itoa(int(f.service.address.Port)))}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://192.0.2.1/", strings.NewReader("whole"))
	require.NoError(t, err)
	answer, err := to.Send(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "whole", string(text))
	require.Equal(t, dialAttempts, dials)

	dials, failing = 0, 100
	transport.CloseIdleConnections()
	_, err = to.Send(r) //nolint:bodyclose // there is none
	require.Error(t, err)
	require.Equal(t, dialAttempts, dials)
}

func TestRequestsOfOneAPIRuleAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Deps, o *Options) { o.RequestsPerAPIRule = 1 })
	f.exposed.Set([]apirule.Exposure{
		exposureOf(shopHost, open(f.service.address, "/*", "GET")), exposureOf("other.example.com", open(f.function.address, "/*", "GET")),
	})
	entered, release := make(chan struct{}), make(chan struct{})
	f.service.answers(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})
	answers := make(chan answer, 1)
	go func() { answers <- f.get("/") }()
	<-entered
	refused := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.Equal(t, "price", f.do("GET", "other.example.com", "/").text, "others have their own")

	f.exposed.Set([]apirule.Exposure{exposureOf(shopHost, open(f.service.address, "/*", "GET"))})
	require.Equal(t, http.StatusServiceUnavailable, f.get("/").StatusCode, "a change of another host adds no requests")
	close(release)
	require.Equal(t, http.StatusOK, (<-answers).StatusCode)
	f.service.answers(says("again"))
	require.Equal(t, "again", f.get("/").text)
}

func TestRequestsOfANamespaceLeaveAsManyToOthers(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Deps, o *Options) { o.Requests, o.RequestsPerAPIRule = 4, 4 })
	other := exposureOf("other.example.com", open(f.function.address, "/*", "GET"))
	other.APIRule.Namespace = "other"
	f.exposed.Set([]apirule.Exposure{
		exposureOf("a.example.com", open(f.service.address, "/*", "GET")), exposureOf("b.example.com", open(f.service.address, "/*", "GET")), other,
	})
	entered, release := make(chan struct{}), make(chan struct{})
	f.service.answers(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	answers := make(chan answer, 2)
	for _, host := range []string{"a.example.com", "b.example.com"} {
		go func() { answers <- f.do("GET", host, "/") }()
		<-entered
	}
	refused := f.do("GET", "b.example.com", "/")
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.Equal(t, "price", f.do("GET", "other.example.com", "/").text)
	close(release)
	for range cap(answers) {
		require.Equal(t, http.StatusOK, (<-answers).StatusCode)
	}
}

func TestACallerLeavesHalfOfTheRequestsOfAnAPIRuleToOthers(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Deps, o *Options) { o.RequestsPerAPIRule = 4 })
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	h := f.exposed.current.Load().find(shopHost)
	enter := func(address string) bool {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = address
		return (&exchange{all: f.exposed}).enter(h, r)
	}
	require.True(t, enter("192.0.2.1:1"))
	require.True(t, enter("192.0.2.1:2"))
	require.False(t, enter("192.0.2.1:3"))
	require.True(t, enter("192.0.2.2:1"))
	require.True(t, enter("192.0.2.3:1"))
	require.False(t, enter("192.0.2.4:1"))
}

func TestTenThousandHostsAreCompiledOnceEach(t *testing.T) {
	t.Parallel()
	const hosts = 10_000
	f := start(t)
	all := make([]apirule.Exposure, hosts)
	for i := range all {
		all[i] = exposureOf(fmt.Sprintf("h%d.example.com", i), open(f.service.address, "/*", "GET"), open(f.service.address, "/a/{*}", "POST"))
	}
	f.exposed.Set(all)
	before := f.exposed.current.Load()
	require.Equal(t, hosts, before.hosts())
	require.Equal(t, "catalog", f.do("GET", "h9999.example.com", "/").text)

	all[0].Rules = all[0].Rules[:1]
	f.exposed.Set(all[:hosts-1])
	after := f.exposed.current.Load()
	compiled := 0
	for name, h := range after.loaded {
		if h != before.loaded[name] {
			compiled++
		}
	}
	require.Equal(t, 1, compiled)
	require.Equal(t, http.StatusNotFound, f.do("GET", "h9999.example.com", "/").StatusCode)
}

// Requests see the old table or the new one, and never a part of both.
func TestTablesAreSwappedUnderRequests(t *testing.T) {
	t.Parallel()
	f := start(t)
	tables := [][]apirule.Exposure{
		{exposureOf("a.example.com", open(f.service.address, "/*", "GET")), exposureOf("*.example.com", open(f.function.address, "/*", "GET"))},
		{exposureOf("a.example.com", open(f.function.address, "/*", "GET")), exposureOf("*.example.com", open(f.service.address, "/*", "GET"))},
	}
	f.exposed.Set(tables[0])
	for i := range 200 {
		var setting sync.WaitGroup
		setting.Go(func() { f.exposed.Set(tables[i%2]) })
		require.Equal(t, http.StatusOK, f.do("GET", "a.example.com", "/").StatusCode)
		setting.Wait()
	}
}

func TestABrokenAPIRuleAffectsNoOtherTenant(t *testing.T) {
	t.Parallel()
	f := start(t)
	wrongPath := open(f.service.address, "/{**}/{**}", "GET")
	broken := exposureOf("broken.example.com", wrongPath, open(f.service.address, "/good", "GET"))
	broken.CORS = shopPolicy(v2.StringMatch{"regex": "("})
	f.exposed.Set([]apirule.Exposure{broken, exposureOf(shopHost, open(f.service.address, "/*", "GET"))})
	require.Equal(t, "catalog", f.get("/").text)
	require.Equal(t, "catalog", f.do("GET", "broken.example.com", "/good").text)
	require.Equal(t, http.StatusNotFound, f.do("GET", "broken.example.com", "/bad").StatusCode)
	problems := f.exposed.Loaded()[broken.APIRule].Problems
	require.Len(t, problems, 2)
	require.Equal(t, ".spec.corsPolicy.allowOrigins[0].regex", problems[0].Attribute)
	require.Equal(t, apirule.Problem{
		Attribute: ".spec.rules[0].path", Closes: apirule.RuleAt(0),
		Message: "path /{**}/{**}: Only one {**} operator is allowed in the path.",
	}, problems[1])
	require.Empty(t, f.exposed.Loaded()[types.NamespacedName{Namespace: "shop", Name: shopHost}].Problems)
}

func TestRequestsAreCountedByOutcomeAndClass(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	closed := open(f.service.address, "/closed", "GET")
	closed.Closed = true
	f.serve(shopHost, closed, withTokens(f.service.address, "/locked", i.jwt()), within(20*time.Millisecond, f.service.address, "/slow"), open(f.service.address, "/*", "GET"))
	f.service.answers(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
		case "/slow":
			hangs(w, r)
		}
	})
	for _, path := range []string{"/", "/", "/teapot", "/closed", "/locked", "/slow"} {
		f.get(path)
	}
	f.get("/locked", "Authorization", "Bearer x")
	for n := range 3 {
		f.do("GET", fmt.Sprintf("unknown%d.example.com", n), "/")
	}
	require.Eventually(t, func() bool { return testutil.CollectAndCount(f.exposed.metrics.requests) == 7 }, time.Minute, time.Millisecond)
	for labels, count := range map[[2]string]float64{
		{"served", "2xx"}: 2, {"served", "4xx"}: 1, {"closed", "5xx"}: 1, {"denied", "4xx"}: 1, {"unauthorized", "4xx"}: 1,
		{"timeout", "5xx"}: 1, {"not_found", "4xx"}: 3,
	} {
		require.InDelta(t, count, testutil.ToFloat64(f.exposed.metrics.requests.WithLabelValues(labels[0], labels[1])), 0, labels)
	}
	families, err := f.registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 4)
}

func TestNothingOfARequestIsLoggedOrAnswered(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	f, i := start(t, func(d *Deps, _ *Options) {
		d.Log = funcr.New(func(prefix, args string) { logged.WriteString(prefix + args) }, funcr.Options{})
	}), newIssuer(t)
	f.serve(shopHost, withTokens(f.service.address, "/*", i.jwt()))
	got := f.get("/?access_token=s3cret")
	require.Equal(t, http.StatusUnauthorized, got.StatusCode)
	require.NotContains(t, got.text+fmt.Sprint(got.Header), "s3cret")
	require.Empty(t, logged.String())
}

// at are the endpoints of Services.
type at map[types.NamespacedName][]routing.Endpoint

// Watch implements Endpoints.
func (a at) Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	if port == 8080 {
		apply(a[service])
	} else {
		apply(nil)
	}
	<-ctx.Done()
	return nil
}

func TestAServiceIsReachedAtAPodThatIsReadyOrElseAtOneThatEnds(t *testing.T) {
	t.Parallel()
	catalog := types.NamespacedName{Namespace: "shop", Name: "catalog"}
	ready, ends := routing.Endpoint{Address: "10.0.0.1:80", Ready: true}, routing.Endpoint{Address: "10.0.0.3:80", Terminating: true}
	starts := routing.Endpoint{Address: "10.0.0.2:80"}
	for name, tc := range map[string]struct {
		pods []routing.Endpoint
		want string // empty: none
	}{
		"ready":      {pods: []routing.Endpoint{starts, ready, ends}, want: ready.Address},
		"ends":       {pods: []routing.Endpoint{starts, ends}, want: ends.Address},
		"starts":     {pods: []routing.Endpoint{starts}},
		"none":       {},
		"ready ends": {pods: []routing.Endpoint{{Address: "10.0.0.4:80", Ready: true, Terminating: true}, ready}, want: ready.Address},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pods{endpoints: at{catalog: tc.pods}}
			pod, err := p.choose(t.Context(), serviceAddress(&apirule.Backend{Service: catalog, Port: 8080, Address: "10.96.0.1"}))
			if tc.want == "" {
				require.ErrorIs(t, err, errNoPod)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, pod)
			_, err = p.choose(t.Context(), serviceAddress(&apirule.Backend{Service: catalog, Port: 9090}))
			require.ErrorIs(t, err, errNoPod, "another port")
		})
	}
}

func TestAServiceWithoutAPodIsUnavailable(t *testing.T) {
	t.Parallel()
	f := start(t, func(d *Deps, _ *Options) { d.Endpoints = at{} })
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	got := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.Equal(t, refusesConnections, got.text)
	require.Zero(t, f.service.requests(), "its cluster IP is not asked")
}
