package activator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestWhoWaitsTooLongIsToldWhyAndWhenToComeAgain(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Wait, c.Reason = 20*time.Millisecond, "MinReplicasNotAvailable" })
	answer := f.do(f.request(http.MethodGet, "/", ""))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "5", answer.Header.Get("Retry-After"))
	require.Equal(t, activation.RefusedTimeout, answer.Header.Get(activation.HeaderRefused))
	require.Regexp(t, `^Function shop/price has no pod that takes requests after [\d.]+m?s: MinReplicasNotAvailable\n$`, answer.text)
	f.awaitLoad(0, 0)
}

func TestWhoSendsNothingOfABodyIsCountedNoLongerThanHeMayWait(t *testing.T) {
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

	f.set(f.pod(true, hello)) // what runs serves, whatever the status says
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
