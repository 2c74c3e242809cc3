package activator

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

var price = types.NamespacedName{Namespace: "shop", Name: "price"}

// pods are the endpoints of one Function, which a test changes.
type pods struct {
	mu      sync.Mutex
	current []routing.Endpoint
	changed chan struct{}
}

func (p *pods) set(endpoints ...routing.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = endpoints
	close(p.changed)
	p.changed = make(chan struct{})
}

// Watch implements Endpoints.
func (p *pods) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	for {
		p.mu.Lock()
		current, changed := p.current, p.changed
		p.mu.Unlock()
		apply(current)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

type knownFunctions func() Condition

// Condition implements Functions.
func (k knownFunctions) Condition(types.NamespacedName) Condition { return k() }

// fixture is an activator port of one Function.
type fixture struct {
	*pods
	t      *testing.T
	all    *Activator
	table  *Table
	server *httptest.Server

	known atomic.Pointer[Condition]
}

// learn changes what is known of the Function.
func (f *fixture) learn(c Condition) { f.known.Store(&c) }

type setting func(*Options, *Condition)

func start(t *testing.T, settings ...setting) *fixture {
	t.Helper()
	options, condition := DefaultOptions(), Condition{}
	options.AllowLoopback = true
	for _, s := range settings {
		s(&options, &condition)
	}
	require.NoError(t, flags.Validate(&options))
	f := &fixture{pods: &pods{changed: make(chan struct{})}, t: t, table: NewTable()}
	f.learn(condition)
	f.all = New(Deps{
		Endpoints: f.pods,
		Functions: knownFunctions(func() Condition { return *f.known.Load() }),
		Begin:     func(name types.NamespacedName) Request { return f.table.Begin(name) },
		Registry:  prometheus.NewRegistry(),
		Log:       logr.Discard(),
	}, options)
	f.server = httptest.NewServer(f.all.Handler(price, "uid"))
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
		f.all.Close()
	})
	return f
}

// pod serves with handle; ready is what its probe reports.
func (f *fixture) pod(ready bool, handle http.HandlerFunc) routing.Endpoint {
	f.t.Helper()
	server := httptest.NewServer(handle)
	f.t.Cleanup(server.Close)
	return routing.Endpoint{Address: server.Listener.Addr().String(), Ready: ready, Function: true}
}

func (f *fixture) request(method, path, body string) *http.Request {
	f.t.Helper()
	var content io.Reader = http.NoBody
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+path, content)
	require.NoError(f.t, err)
	return r
}

type answer struct {
	*http.Response
	text string
}

func (f *fixture) do(r *http.Request) answer {
	f.t.Helper()
	response, err := loopback.Default.Transport.RoundTrip(r)
	require.NoError(f.t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, response.Body.Close())
	return answer{response, string(text)}
}

// goDo answers later.
func (f *fixture) goDo(r *http.Request) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		response, err := loopback.Default.Transport.RoundTrip(r)
		if err != nil {
			answers <- answer{text: err.Error()}
			return
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		answers <- answer{response, string(text)}
	}()
	return answers
}

// awaitLoad returns when so many requests wait and run.
func (f *fixture) awaitLoad(waiting, running int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		w, r := f.table.Totals()
		return w == waiting && r == running
	}, time.Minute, time.Millisecond, "the load is not waiting=%d running=%d", waiting, running)
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestWithAPodARequestIsForwardedAsItCame(t *testing.T) {
	t.Parallel()
	f := start(t)
	type seen struct {
		method, uri, host, body string
		header                  http.Header
	}
	got := make(chan seen, 1)
	f.set(f.pod(true, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Method, r.RequestURI, r.Host, string(body), r.Header}
		w.Header().Set("X-Answer", "yes")
		w.Header().Set(activation.HeaderRefused, activation.RefusedTimeout)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
	}))
	f.do(f.request(http.MethodGet, "/", "")) // its pods are looked up
	<-got
	r := f.request(http.MethodPost, "/a%2Fb//c/../d?x=1;y=%zz&z", "order")
	r.Host = "api.example.com"
	r.Header.Set("X-Question", "why")
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set(activation.HeaderVia, activation.ViaEventbridge)
	answer := f.do(r)
	require.Equal(t, http.StatusTeapot, answer.StatusCode)
	require.Equal(t, "short and stout", answer.text)
	require.Equal(t, "yes", answer.Header.Get("X-Answer"))
	require.Empty(t, answer.Header.Get(HeaderColdStart))
	require.Empty(t, answer.Header.Get(activation.HeaderRefused), "a pod cannot say that the request did not reach it")

	pod := <-got
	require.Equal(t, "POST", pod.method)
	require.Equal(t, "/a%2Fb//c/../d?x=1;y=%zz&z", pod.uri)
	require.Equal(t, "api.example.com", pod.host)
	require.Equal(t, "order", pod.body)
	require.Equal(t, "why", pod.header.Get("X-Question"))
	require.Equal(t, []string{"192.0.2.1", "127.0.0.1"}, pod.header.Values("X-Forwarded-For"))
	require.Equal(t, "https", pod.header.Get("X-Forwarded-Proto"))
	require.NotContains(t, pod.header, "X-Forwarded-Host", "the pod would not get it from its Service either")
	require.Equal(t, []string{activation.ViaGateway}, pod.header.Values(activation.HeaderVia), "a caller cannot say where it comes from")
	f.awaitLoad(0, 0)
}

func TestARequestWaitsUntilAPodAcceptsConnections(t *testing.T) {
	t.Parallel()
	f := start(t)
	release := make(chan struct{})
	answers := f.goDo(f.request(http.MethodPost, "/", "order"))
	f.awaitLoad(1, 0)
	time.Sleep(2 * time.Millisecond) // what is shorter is no waiting
	f.set(f.pod(false, func(w http.ResponseWriter, r *http.Request) {
		<-release
		_, _ = io.Copy(w, r.Body)
	})) // its probe has not passed yet
	f.awaitLoad(0, 1)
	close(release)
	answer := <-answers
	require.Equal(t, "order", answer.text)
	require.NotEmpty(t, answer.Header.Get(HeaderColdStart))
	require.False(t, answer.Close, "the Service does not lead to the pod yet")
	f.awaitLoad(0, 0)
}

func TestWhileAPodIsReadyCallersAreSentToItWithTheirNextRequest(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(f.pod(true, hello))
	require.True(t, f.do(f.request(http.MethodGet, "/", "")).Close)
}

func TestCallersWithoutAServiceKeepTheirConnection(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, _ *Condition) { o.StayOnPath = true })
	f.set(f.pod(true, hello))
	require.False(t, f.do(f.request(http.MethodGet, "/", "")).Close)
}

func TestCallersOfPodsThatGatewaysAloneLeadToKeepTheirConnection(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Stay = true })
	f.set(f.pod(true, hello))
	require.False(t, f.do(f.request(http.MethodGet, "/", "")).Close)
}

func TestWherePodsEndWithoutNoticeARequestGetsAConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	for fresh, connections := range map[bool]int{false: 1, true: 2} {
		t.Run(strconv.FormatBool(fresh), func(t *testing.T) {
			t.Parallel()
			f := start(t, func(o *Options, _ *Condition) { o.FreshConnections = fresh })
			callers := make(chan string, 2)
			f.set(f.pod(true, func(_ http.ResponseWriter, r *http.Request) { callers <- r.RemoteAddr }))
			seen := map[string]bool{}
			for range 2 {
				f.do(f.request(http.MethodGet, "/", ""))
				seen[<-callers] = true
			}
			require.Len(t, seen, connections)
		})
	}
}

func TestProbesAndScrapersDoNotWakeAFunction(t *testing.T) {
	t.Parallel()
	f := start(t)
	health := f.do(f.request(http.MethodGet, "/healthz", ""))
	require.Equal(t, http.StatusOK, health.StatusCode)
	require.Equal(t, "uid", health.Header.Get(activation.HeaderFunction))
	for _, path := range []string{"/metrics", activation.LoadPath} {
		require.Equal(t, http.StatusServiceUnavailable, f.do(f.request(http.MethodGet, path, "")).StatusCode, path)
	}
	f.awaitLoad(0, 0)
	require.Empty(t, f.all.functions)

	posted := f.goDo(f.request(http.MethodPost, "/healthz", "x"))
	f.awaitLoad(1, 0) // is an ordinary request
	f.set(f.pod(true, hello))
	require.Equal(t, "hello", (<-posted).text)
}

func TestAFunctionIsForgottenSomeTimeAfterItsLastRequest(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, _ *Condition) { o.ForgetAfter = time.Millisecond })
	f.set(f.pod(true, hello))
	f.do(f.request(http.MethodGet, "/", ""))
	require.Eventually(t, func() bool {
		f.all.mu.Lock()
		defer f.all.mu.Unlock()
		return len(f.all.functions) == 0
	}, time.Minute, time.Millisecond)
	require.Equal(t, "hello", f.do(f.request(http.MethodGet, "/", "")).text, "and followed again with the next one")
}

// outside makes the server serve callers from outside the cluster, after a change of their contexts.
func (f *fixture) outside(call Call, change ...func(context.Context) context.Context) {
	f.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, c := range change {
			r = r.WithContext(c(r.Context()))
		}
		f.all.Serve(w, r, price, call)
	})
}

func TestInternalEndpointsOfPodsAreNotFoundFromOutside(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.outside(Call{})
	health := f.do(f.request(http.MethodGet, "/healthz", ""))
	require.Equal(t, http.StatusOK, health.StatusCode)
	require.Equal(t, "OK", health.text)
	require.NotContains(t, health.Header, activation.HeaderFunction)
	for _, path := range []string{"/metrics", activation.LoadPath, "/.well-known%2Frouse/load"} {
		answer := f.do(f.request(http.MethodGet, path, ""))
		require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
		require.Empty(t, answer.text)
	}
	require.Equal(t, http.StatusNotFound, f.do(f.request(http.MethodPost, activation.LoadPath, "x")).StatusCode)
	f.awaitLoad(0, 0)
	require.Empty(t, f.all.functions, "nothing was woken")

	f.set(f.pod(true, hello))
	require.Equal(t, "hello", f.do(f.request(http.MethodPost, "/metrics", "x")).text, "which a handler may have")
}

func TestACallMayKeepItsConnectionWhileAPodIsReady(t *testing.T) {
	t.Parallel()
	for _, stay := range []bool{true, false} {
		f := start(t)
		f.set(f.pod(true, hello))
		f.outside(Call{Stay: stay})
		require.Equal(t, !stay, f.do(f.request(http.MethodGet, "/", "")).Close)
	}
}

func TestACallWaitsAsLongAsItSays(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Wait = time.Hour })
	f.outside(Call{Wait: 20 * time.Millisecond})
	answer := f.do(f.request(http.MethodGet, "/", ""))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, activation.RefusedTimeout, answer.Header.Get(activation.HeaderRefused))
}

func TestACallToAFunctionThatCannotStartIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Broken = "HandlerFailed" })
	f.outside(Call{Wait: time.Hour})
	require.Equal(t, "Function shop/price does not run: HandlerFailed\n", f.do(f.request(http.MethodGet, "/", "")).text)
}

func TestACallWithoutTimeLeftIsRefusedWhileItWaitsAndNotAnsweredLater(t *testing.T) {
	t.Parallel()
	f := start(t)
	ended, end := context.WithCancelCause(t.Context())
	f.outside(Call{Wait: time.Hour}, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		context.AfterFunc(ended, func() { cancel(context.Cause(ended)) })
		return ctx
	})
	waiting := f.goDo(f.request(http.MethodGet, "/", ""))
	f.awaitLoad(1, 0)
	end(context.DeadlineExceeded)
	refused := <-waiting
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.Equal(t, activation.RefusedTimeout, refused.Header.Get(activation.HeaderRefused))

	entered, over := make(chan struct{}), make(chan struct{})
	f.set(f.pod(true, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	r, cancel := context.WithCancelCause(t.Context())
	recorder := httptest.NewRecorder()
	go func() {
		defer close(over)
		f.all.Serve(recorder, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(r), price, Call{})
	}()
	<-entered
	cancel(context.DeadlineExceeded)
	<-over
	require.Empty(t, recorder.Body.String())
	require.False(t, recorder.Flushed)
	f.awaitLoad(0, 0)
}

func TestTheWaitOfTheGatewayMayChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, _ *Condition) { o.Wait = time.Hour })
	f.outside(Call{})
	f.all.SetWait(20 * time.Millisecond)
	answer := f.do(f.request(http.MethodGet, "/", ""))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, activation.RefusedTimeout, answer.Header.Get(activation.HeaderRefused))
}
