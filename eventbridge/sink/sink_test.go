package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/never"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sinkURL = "http://price.shop.svc.cluster.local:8080/orders?region=eu"
	timeout = time.Minute
)

// run starts a sink for the endpoints and stops it with the test.
func run(t testing.TB, endpoints Endpoints, options Options) *Sink {
	t.Helper()
	return start(t, create(t, Target{URL: sinkURL}, endpoints, options))
}

// create makes a sink on a network of its own.
func create(t testing.TB, target Target, endpoints Endpoints, options Options) *Sink {
	t.Helper()
	network := NewNetwork(options)
	t.Cleanup(network.Close)
	s, err := New(target, Deps{Network: network, Endpoints: endpoints, Log: logr.Discard()})
	require.NoError(t, err)
	return s
}

func start(t testing.TB, s *Sink) *Sink {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

func open(t testing.TB, s *Sink) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	closed, err := s.Gate().Wait(ctx)
	require.NoError(t, err)
	return closed
}

func order(id string) *cloudevent.Event {
	ev := &cloudevent.Event{
		ID: id, Source: "shop", Type: "order.received.v1", Subject: "order", Time: "2026-01-02T03:04:05.000000006Z",
		DataContentType: "application/json", Data: []byte(`{"order": "<1>"}`),
	}
	ev.SetExtension("originaltype", "order.received.v1")
	ev.SetExtension("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	return ev
}

func TestAnEventIsSentInBinaryModeToThePodInTheSinksName(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
	open(t, s)
	before, sent := time.Now(), order("1")
	answer, err := s.Send(t.Context(), sent)
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, answer.Status)
	require.WithinRange(t, answer.Started, before, time.Now())

	request := server.Requests()[0]
	require.Equal(t, http.MethodPost, request.Method)
	require.Equal(t, "price.shop.svc.cluster.local:8080", request.Host)
	require.Equal(t, "/orders?region=eu", request.URI)
	require.Equal(t, sent.Data, request.Body, "byte for byte")
	for name, want := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "shop", "Ce-Type": "order.received.v1", "Ce-Subject": "order",
		"Ce-Time": "2026-01-02T03:04:05.000000006Z", "Ce-Originaltype": "order.received.v1", "Content-Type": "application/json",
		"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Ce-Traceparent": "", "Content-Length": "16",
		"Rouse-Via": "eventbridge",
	} {
		require.Equal(t, want, request.Header.Get(name), name)
	}
}

func TestNoEventCanHideThatTheBridgeHasSentIt(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	viaService := DefaultOptions()
	viaService.Endpoints = EndpointsService
	service := create(t, Target{URL: sinkURL}, loopback.NewEndpoints(loopback.Ready(server.Address())), viaService)
	resolve(service, server.Address())
	pods := create(t, Target{URL: sinkURL}, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
	for _, s := range []*Sink{pods, service} {
		open(t, start(t, s))
		for _, size := range []int{1, maxDirect + 1} {
			ev := order("1")
			ev.Data = bytes.Repeat([]byte("x"), size)
			for _, name := range []string{"rousevia", "rouse-via", "Rouse-Via"} {
				ev.SetExtension(name, "gateway")
			}
			_, err := s.Send(t.Context(), ev)
			require.NoError(t, err)
		}
	}
	require.Len(t, server.Requests(), 4)
	for _, request := range server.Requests() {
		require.Equal(t, []string{"eventbridge"}, request.Header.Values("Rouse-Via"))
	}
}

// recordedSigner signs with what it was asked for.
type recordedSigner struct{ ids chan string }

func (r recordedSigner) Sign(header http.Header, id string, _ time.Time, body []byte) {
	r.ids <- id
	header.Set("Webhook-Signature", fmt.Sprintf("v1,%x", sha256.Sum256(body)))
}

func TestASignedEventIsInTheBodyWholeWithTheSameIDAtEachAttempt(t *testing.T) {
	t.Parallel()
	server, signer := loopback.StartSink(t, nil), recordedSigner{make(chan string, 3)}
	s := start(t, create(t, Target{URL: sinkURL, Signer: signer}, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions()))
	open(t, s)
	ev := order("1")
	for range 2 {
		_, err := s.Send(t.Context(), ev)
		require.NoError(t, err)
	}
	for _, request := range server.Requests() {
		got, err := cloudevent.FromStructured(request.Body)
		require.NoError(t, err)
		require.Equal(t, *ev, got)
		for name, want := range map[string]string{
			"Content-Type": "application/cloudevents+json", "Webhook-Signature": fmt.Sprintf("v1,%x", sha256.Sum256(request.Body)),
			"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Ce-Type": "", "Ce-Id": "", "Rouse-Via": "eventbridge",
		} {
			require.Equal(t, want, request.Header.Get(name), name)
		}
	}
	id := <-signer.ids
	require.Equal(t, id, <-signer.ids)
	require.Regexp(t, "^evt_[0-9a-f]{32}$", id)
	ev.Source = "another"
	_, err := s.Send(t.Context(), ev)
	require.NoError(t, err)
	require.NotEqual(t, id, <-signer.ids, "ids are unique for their source alone")
}

func TestAnEventWithoutDataHasNoBody(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
	open(t, s)
	ev := &cloudevent.Event{ID: "1", Source: "shop", Type: "order", Subject: "two\nlines"}
	_, err := s.Send(t.Context(), ev)
	require.NoError(t, err)
	require.Empty(t, server.Requests()[0].Body)
	require.Equal(t, "two%0Alines", server.Requests()[0].Header.Get("Ce-Subject"))
}

func redirect(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", status) }
}

func TestAnswersAreReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    dispatch.Answer
	}{
		"a failure with an excerpt": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "out of stock", http.StatusInternalServerError)
			},
			want: dispatch.Answer{Status: 500, Excerpt: "out of stock\n"},
		},
		"moved":         {handler: redirect(http.StatusMovedPermanently), want: dispatch.Answer{Status: 301}},
		"found":         {handler: redirect(http.StatusFound), want: dispatch.Answer{Status: 302}},
		"see other":     {handler: redirect(http.StatusSeeOther), want: dispatch.Answer{Status: 303}},
		"redirected":    {handler: redirect(http.StatusTemporaryRedirect), want: dispatch.Answer{Status: 307}},
		"moved for all": {handler: redirect(http.StatusPermanentRedirect), want: dispatch.Answer{Status: 308}},
		"a request for time": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(http.StatusTooManyRequests)
			},
			want: dispatch.Answer{Status: 429, RetryAfter: 3 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := loopback.StartSink(t, tc.handler)
			s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
			open(t, s)
			answer, err := s.Send(t.Context(), order("1"))
			require.NoError(t, err)
			answer.Started = time.Time{}
			require.Equal(t, tc.want, answer)
			require.Len(t, server.Requests(), 1)
		})
	}
}

func TestASinkThatHangsRunsIntoTheTimeout(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	target := Target{URL: sinkURL, Timeout: 50 * time.Millisecond}
	s := start(t, create(t, target, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions()))
	closed := open(t, s)
	_, err := s.Send(t.Context(), order("1"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, dispatch.ErrSinkGone)
	select {
	case <-closed:
		require.Fail(t, "a slow answer closed the gate")
	default:
	}
}

func TestABrokenConnectionIsNotErrSinkGone(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
	open(t, s)
	_, err := s.Send(t.Context(), order("1"))
	require.Error(t, err)
	require.NotErrorIs(t, err, dispatch.ErrSinkGone)
	require.Len(t, server.Requests(), 1)
}

func TestConnectionsAreKeptForAsManyAsAreInFlight(t *testing.T) {
	t.Parallel()
	var barrier sync.WaitGroup
	barrier.Add(5)
	server := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") == "first" {
			barrier.Done()
			barrier.Wait()
		}
		_, _ = io.WriteString(w, strings.Repeat("a body that must be drained", 100))
	})
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
	open(t, s)
	for _, round := range []string{"first", "second"} {
		var calls sync.WaitGroup
		for range 5 {
			calls.Go(func() {
				_, err := s.Send(t.Context(), order(round))
				assert.NoError(t, err)
			})
		}
		calls.Wait()
	}
	remotes := map[string]bool{}
	for _, request := range server.Requests() {
		remotes[request.Remote] = true
	}
	require.Len(t, remotes, 5)
}

func TestEventsGoRoundTheReadyPods(t *testing.T) {
	t.Parallel()
	first, second, leaving := loopback.StartSink(t, nil), loopback.StartSink(t, nil), loopback.StartSink(t, nil)
	endpoints := loopback.NewEndpoints(loopback.Ready(first.Address()), loopback.Ready(second.Address()),
		routing.Endpoint{Address: leaving.Address(), Ready: true, Terminating: true})
	s := run(t, endpoints, DefaultOptions())
	open(t, s)
	for range 10 {
		_, err := s.Send(t.Context(), order("1"))
		require.NoError(t, err)
	}
	require.Len(t, first.Requests(), 5)
	require.Len(t, second.Requests(), 5)
	require.Empty(t, leaving.Requests())
}

func TestAPodThatRefusesIsReplacedWithinTheSend(t *testing.T) {
	t.Parallel()
	up, down := loopback.StartSink(t, nil), loopback.ReserveSink(t, nil)
	s := run(t, loopback.NewEndpoints(loopback.Ready(up.Address()), loopback.Ready(down.Address())), DefaultOptions())
	closed := open(t, s)
	for range 4 {
		answer, err := s.Send(t.Context(), order("1"))
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, answer.Status)
	}
	require.Len(t, up.Requests(), 4)
	require.NotPanics(t, func() {
		select {
		case <-closed:
			panic("the gate closed though one pod answers")
		default:
		}
	})
}

func TestTheGateClosesWhenTheLastPodRefusesAndOpensWhenItAccepts(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
	closed := open(t, s)
	_, err := s.Send(t.Context(), order("1"))
	require.NoError(t, err)

	server.Stop()
	require.Eventually(t, func() bool { // a connection that was kept may break first
		_, err = s.Send(t.Context(), order("2"))
		return errors.Is(err, dispatch.ErrSinkGone)
	}, timeout, time.Millisecond)
	<-closed
	require.False(t, s.Gate().IsOpen())

	server.Restart(t)
	open(t, s)
	_, err = s.Send(t.Context(), order("3"))
	require.NoError(t, err)
}

func TestAStartingFunctionOpensTheGateBeforeItsReadinessProbe(t *testing.T) {
	t.Parallel()
	server := loopback.ReserveSink(t, nil)
	endpoints := loopback.NewEndpoints()
	s := run(t, endpoints, DefaultOptions())
	endpoints.Set(loopback.StartingSink(server.Address()))
	never.Happens(t, s.Gate().IsOpen, 100*time.Millisecond, 5*time.Millisecond)
	server.Restart(t)
	closed := open(t, s)
	_, err := s.Send(t.Context(), order("1"))
	require.NoError(t, err)

	endpoints.Set(routing.Endpoint{Address: server.Address(), Function: true, Terminating: true})
	<-closed
	_, err = s.Send(t.Context(), order("2"))
	require.ErrorIs(t, err, dispatch.ErrSinkGone)
}

func TestAnotherServiceWaitsForItsReadinessProbe(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	endpoints := loopback.NewEndpoints(routing.Endpoint{Address: server.Address()})
	s := run(t, endpoints, DefaultOptions())
	never.Happens(t, s.Gate().IsOpen, 100*time.Millisecond, 5*time.Millisecond)
	endpoints.Set(loopback.Ready(server.Address()))
	open(t, s)
}

func TestLogsShowNoSecretsOfTheSink(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	log := funcr.New(func(_, line string) { lines.WriteString(line) }, funcr.Options{})
	u, err := url.Parse("http://user:hidden@price.shop.svc.cluster.local/in?token=hidden#hidden")
	require.NoError(t, err)
	p := newPods(u, Deps{Network: NewNetwork(DefaultOptions()), Log: log})
	p.Apply([]routing.Endpoint{{Address: "10.0.0.1:80", Ready: true}})
	p.Apply(nil)
	require.Contains(t, lines.String(), `"gate opened" "sink"="http://price.shop.svc.cluster.local/in"`)
	require.Contains(t, lines.String(), `"gate closed" "sink"="http://price.shop.svc.cluster.local/in"`)
	require.NotContains(t, lines.String(), "hidden")
}

func TestOnGateIsCalledWhenTheGateOpensOrCloses(t *testing.T) {
	t.Parallel()
	var open []bool
	deps := Deps{Network: NewNetwork(DefaultOptions()), OnGate: func(now bool) { open = append(open, now) }, Log: logr.Discard()}
	p := newPods(&url.URL{Scheme: "http"}, deps)
	for _, tc := range []struct {
		endpoints []routing.Endpoint
		want      []bool
	}{{nil, nil}, {[]routing.Endpoint{loopback.Ready("a:1"), loopback.Ready("b:1")}, []bool{true}}, {nil, []bool{true, false}}} {
		p.Apply(tc.endpoints)
		require.Equal(t, tc.want, open)
	}
	open = nil
	_, err := New(Target{URL: externalURL, External: true}, deps)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, open, "an external sink is always open")
	_, err = New(Target{URL: sinkURL}, deps)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, open, "another before it has an address")
}

func TestAPodIsCalledAtItsAddressInTheSinksName(t *testing.T) {
	t.Parallel()
	sink, err := url.Parse("http://price/in?region=eu")
	require.NoError(t, err)
	p := newPods(sink, Deps{Network: NewNetwork(DefaultOptions()), Log: logr.Discard()})
	p.Apply([]routing.Endpoint{loopback.Ready("a:1")})
	require.Equal(t, "http://a:1/in?region=eu", p.Pick().Value.url.String())
	require.Equal(t, "price", sink.Host)
}

// BenchmarkSend compares a delivery with the POST of the same bytes and headers by a bare client. The server's part is in
// both; cpu-us/op distinguishes them better than the time does.
func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	network := NewNetwork(DefaultOptions())
	defer network.Close()
	s, err := New(Target{URL: sinkURL}, Deps{
		Network: network, Endpoints: loopback.NewEndpoints(loopback.Ready(server.Listener.Addr().String())), Log: logr.Discard(),
	})
	require.NoError(b, err)
	open(b, start(b, s))
	ev := order("1")
	ev.Data = bytes.Repeat([]byte("x"), 1<<10)

	for _, inFlight := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("sink/%d", inFlight), func(b *testing.B) {
			deliver(b, inFlight, func() error {
				_, err := s.Send(b.Context(), ev)
				return err
			})
		})
		b.Run(fmt.Sprintf("bare/%d", inFlight), func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: inFlight}}
			defer client.CloseIdleConnections()
			deliver(b, inFlight, func() error { return bare(b, client, server.URL, ev) })
		})
	}
}

func bare(b *testing.B, client *http.Client, url string, ev *cloudevent.Event) error {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(ev.Data))
	if err != nil {
		return err
	}
	ev.SetHeader(req.Header)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

// deliver spreads b.N calls over so many goroutines.
func deliver(b *testing.B, inFlight int, send func() error) {
	b.Helper()
	b.ReportAllocs()
	calls := make(chan struct{}, inFlight)
	var senders sync.WaitGroup
	for range inFlight {
		senders.Go(func() {
			for range calls {
				if err := send(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	before := cpu(b)
	for range b.N {
		calls <- struct{}{}
	}
	close(calls)
	senders.Wait()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkIdle measures what a sink costs that has one pod and nothing to do.
func BenchmarkIdle(b *testing.B) {
	network := NewNetwork(DefaultOptions())
	defer network.Close()
	endpoints := loopback.NewEndpoints(loopback.Ready("10.0.0.1:8080"))
	before, goroutines := memory(), runtime.NumGoroutine()
	for range b.N {
		s, err := New(Target{URL: sinkURL}, Deps{Network: network, Endpoints: endpoints, Log: logr.Discard()})
		require.NoError(b, err)
		open(b, start(b, s))
	}
	after := memory()
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heap-B/op")
	b.ReportMetric(float64(after.StackInuse-before.StackInuse)/float64(b.N), "stack-B/op")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(b.N), "goroutines/op")
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}
