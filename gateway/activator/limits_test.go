package activator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestARequestThatWaitsTooLongGetsTheReasonAndRetryAfter(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Wait, c.Reason = 20*time.Millisecond, "MinReplicasNotAvailable" })
	answer := f.do(f.request(http.MethodGet, "/", ""))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "5", answer.Header.Get("Retry-After"))
	require.Equal(t, activation.RefusedTimeout, answer.Header.Get(activation.HeaderRefused))
	require.Regexp(t, `^Function shop/price has no pod that takes requests after [\d.]+m?s: MinReplicasNotAvailable\n$`, answer.text)
	f.awaitLoad(0, 0)
}

func TestAStalledBodyIsCountedOnlyUntilItsTimeout(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Wait = 20 * time.Millisecond })
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", f.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: price\r\nContent-Length: 10\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	f.awaitLoad(0, 0)
}

func TestAFunctionThatCannotStartAnswersAtOnceAndIsWokenAllTheSame(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Broken = "HandlerFailed; its status says why" })
	answer := f.do(f.request(http.MethodGet, "/", ""))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "Function shop/price does not run: HandlerFailed; its status says why\n", answer.text)

	f.set(f.pod(true, hello)) // a running pod serves, whatever the status is
	require.Eventually(t, func() bool { return f.do(f.request(http.MethodGet, "/", "")).text == "hello" }, time.Minute, time.Millisecond)
}

func TestWhoWaitsIsToldWhenTheFunctionTurnsOutNotToStart(t *testing.T) {
	t.Parallel()
	f := start(t)
	answers := f.goDo(f.request(http.MethodGet, "/", ""))
	f.awaitLoad(1, 0)
	f.learn(Condition{Broken: "HandlerFailed"})
	require.Equal(t, "Function shop/price does not run: HandlerFailed\n", (<-answers).text)
}

func TestNoMoreRequestsWaitThanMay(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]setting{
		"of one Function":                     func(o *Options, _ *Condition) { o.MaxWaiting = 2 },
		"of one caller, and of one namespace": func(o *Options, _ *Condition) { o.MaxWaitingBytes = 4 * waitingCost },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, limit)
			first, second := f.goDo(f.request(http.MethodGet, "/", "")), f.goDo(f.request(http.MethodGet, "/", ""))
			queue := &f.all.borrow(price).wait
			require.Eventually(t, func() bool { return queue.length() == 2 }, time.Minute, time.Millisecond) // they count before they queue
			refused := f.do(f.request(http.MethodGet, "/", ""))
			require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
			require.Equal(t, "1", refused.Header.Get("Retry-After"))
			require.Equal(t, activation.RefusedOverload, refused.Header.Get(activation.HeaderRefused))
			f.set(f.pod(true, hello))
			require.Equal(t, "hello", (<-first).text)
			require.Equal(t, "hello", (<-second).text)
			require.Zero(t, f.all.waiting.requests())
		})
	}
}

func TestWhoGoesAwayWaitsNoMore(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	answers := f.goDo(f.request(http.MethodGet, "/", "").WithContext(ctx))
	f.awaitLoad(1, 0)
	cancel()
	<-answers
	f.awaitLoad(0, 0)
	require.Zero(t, f.all.waiting.requests())
}

// closedPort refuses connections.
func closedPort(t *testing.T) routing.Endpoint {
	t.Helper()
	return routing.Endpoint{Address: loopback.Address(t), Ready: true, Function: true}
}

func TestAPodThatRefusesLeavesARequestToAnotherOneWholeAndOnce(t *testing.T) {
	t.Parallel()
	f := start(t)
	var calls atomic.Int32
	f.set(closedPort(t), closedPort(t), f.pod(true, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	for i := range int32(3) {
		text := fmt.Sprint("order ", i)
		require.Equal(t, text, f.do(f.request(http.MethodPost, "/", text)).text)
		require.Equal(t, i+1, calls.Load())
	}
}

func TestAnAddressThatNoPodHasIsNotDialled(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, c *Condition) { o.AllowLoopback, c.Wait = false, 50*time.Millisecond })
	secret := f.pod(true, hello)
	f.set(secret, routing.Endpoint{Address: "169.254.169.254:80", Ready: true, Function: true})
	answer := f.do(f.request(http.MethodGet, "/latest/meta-data/", ""))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.NotContains(t, answer.text, "hello")
}

func TestARequestThatAPodHasBegunIsNotRepeated(t *testing.T) {
	t.Parallel()
	f := start(t)
	var calls atomic.Int32
	f.set(f.pod(true, func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}), f.pod(true, func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}))
	answer := f.do(f.request(http.MethodPost, "/", "order"))
	require.Equal(t, http.StatusBadGateway, answer.StatusCode)
	require.NotContains(t, answer.text, "127.0.0.1", "no address of a pod")
	require.Equal(t, int32(1), calls.Load())
}

func TestABodyIsNotReadBeforeAPodIsThere(t *testing.T) {
	t.Parallel()
	f := start(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: price\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	f.awaitLoad(1, 0)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err, "the caller is not asked for his body")

	f.set(f.pod(true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
	lines := bufio.NewReader(conn)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	_, err = io.WriteString(conn, "order")
	require.NoError(t, err)
	answer, err := http.ReadResponse(lines, nil)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "order", string(text))
}

func TestACallerWhoStopsSendingHisBodyIsCutOff(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, _ *Condition) { o.BodyTimeout = 20 * time.Millisecond })
	ended := make(chan error, 1)
	f.set(f.pod(true, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	}))
	reader, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	r := f.request(http.MethodPost, "/", "")
	r.Body, r.ContentLength = reader, 10
	answers := f.goDo(r)
	_, err := io.WriteString(writer, "order")
	require.NoError(t, err)
	require.Error(t, <-ended, "the pod sees that the body is not whole")
	_ = writer.Close()
	<-answers
	f.awaitLoad(0, 0)
}

func TestACallerWhoSendsAByteOfHisBodyNowAndThenIsCutOff(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, _ *Condition) { o.BodyTimeout = 300 * time.Millisecond })
	ended := make(chan error, 1)
	f.set(f.pod(true, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	}))
	reader, writer := io.Pipe()
	r := f.request(http.MethodPost, "/", "")
	r.Body, r.ContentLength = reader, 1<<20
	answers := f.goDo(r)
	go func() {
		for _, err := writer.Write([]byte("x")); err == nil; _, err = writer.Write([]byte("x")) {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	require.Error(t, <-ended, "the pod sees that the body is not whole")
	require.NoError(t, reader.Close())
	<-answers
	f.awaitLoad(0, 0)
}

func named(namespace string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("f", i)}
}

func TestANamespaceAndACallerTakeNoMorePlacesOfWaitingRequestsThanTheyLeaveFree(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(i int) (types.NamespacedName, httplimit.Key){
		"a namespace": func(i int) (types.NamespacedName, httplimit.Key) {
			return named("hostile", i%5), httplimit.Key{Name: strconv.Itoa(i)}
		},
		"a caller": func(i int) (types.NamespacedName, httplimit.Key) {
			return named(fmt.Sprint("ns", i%3), 0), httplimit.Key{Name: "one"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaiting(256 * waitingCost)
			admitted := 0
			for i := range 1000 {
				if w.enter(of(i)) == nil {
					admitted++
				}
			}
			require.Equal(t, 128, admitted)
			require.Nil(t, w.enter(named("shop", 0), httplimit.Key{Name: "honest"}))
			require.EqualValues(t, 129, w.requests())
			w.leave(named("shop", 0), httplimit.Key{Name: "honest"})
			for i := range admitted {
				w.leave(of(i))
			}
			require.Zero(t, w.requests())
			require.Empty(t, w.woken)
			require.Nil(t, w.enter(of(0)))
		})
	}
}

func TestTheFunctionsThatAreWokenAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		of    func(i int) (types.NamespacedName, httplimit.Key)
		woken int
		why   string
	}{
		"of a namespace": {
			func(i int) (types.NamespacedName, httplimit.Key) {
				return named("hostile", i), httplimit.Key{Name: strconv.Itoa(i)}
			},
			128, "as many Functions of its namespace are being woken as may be at a time",
		},
		"by a caller": {
			func(i int) (types.NamespacedName, httplimit.Key) {
				return named(fmt.Sprint("ns", i), i), httplimit.Key{Name: "one"}
			},
			32, "your address is waking as many Functions as it may at a time",
		},
		"by a proxy whose callers are not known": {
			func(i int) (types.NamespacedName, httplimit.Key) {
				return named(fmt.Sprint("ns", i), i), httplimit.Key{Name: "proxy", Unshared: true}
			}, 256, "as many Functions of its namespace are being woken as may be at a time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaiting(1024 * waitingCost)
			for i := range tc.woken {
				require.Nil(t, w.enter(tc.of(i)))
			}
			refused := w.enter(tc.of(tc.woken))
			require.NotNil(t, refused)
			require.Contains(t, refused.text, tc.why)
			require.Equal(t, overloaded, refused.outcome)
			require.Nil(t, w.enter(tc.of(0)), "that Function is being woken already")
			w.leave(tc.of(0))
			w.leave(tc.of(0))
			require.Nil(t, w.enter(tc.of(tc.woken)))
		})
	}
}

// theirPods are the pods of one Function; others never have any.
type theirPods struct {
	of        types.NamespacedName
	endpoints []routing.Endpoint
}

// Watch implements Endpoints.
func (p *theirPods) Watch(ctx context.Context, name types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	if name == p.of {
		apply(p.endpoints)
	}
	<-ctx.Done()
	return nil
}

func TestFunctionsThatNeverStartLeaveWakingToOtherNamespaces(t *testing.T) {
	t.Parallel()
	pod := httptest.NewServer(http.HandlerFunc(hello))
	t.Cleanup(pod.Close)
	options, table := DefaultOptions(), NewTable()
	options.AllowLoopback, options.MaxWaiting, options.MaxWaitingBytes = true, 100, 400*waitingCost
	all := New(Deps{
		Endpoints: &theirPods{price, []routing.Endpoint{{Address: pod.Listener.Addr().String(), Ready: true, Function: true}}},
		Functions: knownFunctions(func() Condition { return Condition{} }),
		Begin:     func(name types.NamespacedName) Request { return table.Begin(name) },
		Registry:  prometheus.NewRegistry(), Log: logr.Discard(),
	}, options)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = r.Header.Get("Test-Caller") + ":1"
		all.Serve(w, r, types.NamespacedName{Namespace: r.Host, Name: r.URL.Path[1:]}, Call{Wait: time.Hour})
	}))
	transport := &http.Transport{}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
		all.Close()
	})
	ask := func(ctx context.Context, namespace, function, caller string) (int, http.Header, string) {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/"+function, http.NoBody)
		request.Host = namespace
		request.Header.Set("Test-Caller", caller)
		answer, err := transport.RoundTrip(request)
		if err != nil {
			return 0, nil, err.Error()
		}
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, answer.Header, string(text)
	}
	for i := range 500 {
		go func() { ask(ctx, "hostile", fmt.Sprint("f", i%5), fmt.Sprint("10.0.0.", i%250)) }()
	}
	require.Eventually(t, func() bool { return all.waiting.requests() == 200 }, time.Minute, time.Millisecond)

	status, header, text := ask(t.Context(), "hostile", "f9", "10.0.1.1")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.Equal(t, activation.RefusedOverload, header.Get(activation.HeaderRefused))
	require.Equal(t, "Function hostile/f9 is asleep, and as many requests wait for Functions of its namespace as may\n", text)

	status, _, text = ask(t.Context(), price.Namespace, price.Name, "10.0.1.2")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "hello", text)
}

// entered puts so many requests into the queue, and returns the turns of those that have to wait.
func entered(t *testing.T, q *queue, n int) []chan struct{} {
	t.Helper()
	var turns []chan struct{}
	for range n {
		turn, ok := q.enter(n)
		require.True(t, ok)
		if turn != nil {
			turns = append(turns, turn)
		}
	}
	return turns
}

func came(turns []chan struct{}) int {
	n := 0
	for _, turn := range turns {
		select {
		case <-turn:
			n++
		default:
		}
	}
	return n
}

func TestWithPodsNobodyWaitsHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	var q queue
	q.set(1)
	require.Empty(t, entered(t, &q, 10*burst))
}

func TestABurstGoesOutAtThePaceOfAnswers(t *testing.T) {
	t.Parallel()
	var q queue
	turns := entered(t, &q, 3*burst)
	require.Len(t, turns, 3*burst)
	q.set(1)
	require.Equal(t, burst, came(turns))
	for range burst / 2 {
		q.answered()
	}
	require.Equal(t, burst+burst/2, came(turns))
	q.set(2)
	require.Equal(t, 2*burst+burst/2, came(turns))
	q.set(0)
	q.answered()
	require.Equal(t, 2*burst+burst/2, came(turns), "without a pod nobody goes on")
}

func TestWhoCameFirstGoesFirst(t *testing.T) {
	t.Parallel()
	var q queue
	turns := entered(t, &q, burst+1)
	q.set(1)
	require.Equal(t, burst, came(turns[:burst]))
	late, ok := q.enter(burst)
	require.True(t, ok)
	require.NotNil(t, late, "it does not overtake the one that waits")
}

func TestWhoGoesAwayLeavesItsPlace(t *testing.T) {
	t.Parallel()
	var q queue
	turns := entered(t, &q, 2)
	_, ok := q.enter(2)
	require.False(t, ok, "the queue is full")
	require.True(t, q.leave(turns[0]))
	require.False(t, q.leave(turns[0]))
	_, ok = q.enter(2)
	require.True(t, ok)
	require.Equal(t, 2, q.length())
	q.set(1)
	require.Equal(t, 0, came(turns[:1]))
	require.False(t, q.leave(turns[1]), "its turn has come")
}
