package sink

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// raw answers each request with text that need not be HTTP. A connection lasts as long as then lets it.
func raw(t *testing.T, then func(conn net.Conn), text string) (address string, accepted *atomic.Int64) {
	t.Helper()
	accepted = &atomic.Int64{}
	return listen(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		accepted.Add(1)
		for requests := bufio.NewReader(conn); ; {
			request, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			_, _ = io.WriteString(conn, text)
			if then != nil {
				then(conn)
			}
		}
	}), accepted
}

// listen serves connections, each until the end of the test at most.
func listen(t *testing.T, serve func(conn net.Conn)) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	ended := make(chan struct{})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(conn) })
			serving.Go(func() {
				<-ended
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(ended)
		serving.Wait()
	})
	return listener.Addr().String()
}

func shut(conn net.Conn) { _ = conn.Close() }

func TestAnswersAreReadAsTheProtocolAllows(t *testing.T) {
	t.Parallel()
	const noContent = "HTTP/1.1 204 No Content\r\n\r\n"
	for name, tc := range map[string]struct {
		text        string
		then        func(net.Conn)
		want        int
		excerpt     string
		wantErr     string // of the error
		connections int64  // for two events
	}{
		"an answer":                        {text: noContent, want: 204, connections: 1},
		"an interim answer before":         {text: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + noContent, want: 204, connections: 1},
		"nothing but interim answers":      {text: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterim), wantErr: "interim", connections: 2},
		"a body in chunks, with a trailer": {text: "HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-A: b\r\n\r\n", want: 500, excerpt: "abc", connections: 1},
		"the end of the connection":        {text: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", want: 200, connections: 2},
		"an old server":                    {text: "HTTP/1.0 200 OK\r\n\r\nhello", then: shut, want: 200, connections: 2},
		"an old server that goes on":       {text: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", want: 200, connections: 1},
		"another protocol":                 {text: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", want: 101, connections: 2},
		"a length where no body can be":    {text: "HTTP/1.1 204 No Content\r\nContent-Length: 38\r\n\r\n", want: 204, connections: 2},
		"no length where no body can be":   {text: "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", want: 204, connections: 1},
		"chunks where no body can be":      {text: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", want: 204, connections: 2},
		"an answer without a request":      {text: noContent + noContent, want: 204, connections: 2},
		"a body that breaks off":           {text: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", then: shut, want: 200, connections: 2},
		"a reply that breaks off": {
			text: "HTTP/1.1 200 OK\r\nCe-Specversion: 1.0\r\nContent-Length: 9\r\n\r\nabc", then: shut, wantErr: "read the sink's reply", connections: 2,
		},
		"nothing":        {then: shut, wantErr: "unexpected EOF", connections: 2},
		"no HTTP":        {text: "220 mail.example.com ESMTP\r\n\r\n", wantErr: "malformed", connections: 2},
		"a long header":  {text: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", httplimit.MaxHeadBytes), wantErr: "more than 16384 bytes", connections: 2},
		"many lines":     {text: "HTTP/1.1 204 No Content\r\n" + strings.Repeat("A: b\r\n", httplimit.MaxHeadLines+1) + "\r\n", wantErr: "more than 64 lines", connections: 2},
		"half an answer": {text: "HTTP/1.1 200 OK\r\nA:", then: shut, wantErr: "unexpected EOF", connections: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, accepted := raw(t, tc.then, tc.text)
			s := run(t, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions())
			open(t, s)
			for range 2 {
				answer, err := s.Send(t.Context(), order("1"))
				if tc.wantErr != "" {
					require.ErrorContains(t, err, tc.wantErr)
					require.NotErrorIs(t, err, dispatch.ErrSinkGone)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, tc.want, answer.Status)
				require.Equal(t, tc.excerpt, answer.Excerpt)
			}
			require.Equal(t, tc.connections, accepted.Load())
		})
	}
}

func TestAConnectionThatWasClosedWhileItIdledCostsNoAttempt(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 1)
	address, accepted := raw(t, func(conn net.Conn) {
		shut(conn)
		closed <- struct{}{}
	}, "HTTP/1.1 204 No Content\r\n\r\n")
	s := run(t, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions())
	open(t, s)
	for range 10 {
		_, err := s.Send(t.Context(), order("1"))
		require.NoError(t, err)
		<-closed
	}
	require.Equal(t, int64(10), accepted.Load())
}

func TestACallThatIsOutOfTimeReadsNothingOfTheCallBefore(t *testing.T) {
	t.Parallel()
	address, _ := raw(t, nil, "HTTP/1.1 204 No Content\r\n\r\n")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	w, err := newPodConn(conn)
	require.NoError(t, err)
	defer func() { _ = w.Close() }()
	n := NewNetwork(DefaultOptions())
	request := []byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
	x := w.exchange(t.Context(), n, replyReader{}, request)
	require.NoError(t, x.err)
	require.Equal(t, http.StatusNoContent, x.answer.Status)
	require.NoError(t, w.conn.SetDeadline(time.Unix(1, 0)))
	x = w.exchange(t.Context(), n, replyReader{}, request)
	require.ErrorIs(t, x.err, context.DeadlineExceeded)
	require.True(t, x.unsent)
	require.Zero(t, x.answer.Status)
}

// dialConn connects to a server that reports why it reads nothing more.
func dialConn(t *testing.T) (w *podConn, ended <-chan error) {
	t.Helper()
	reads := make(chan error, 1)
	address := listen(t, func(conn net.Conn) {
		_, err := conn.Read(make([]byte, 1))
		reads <- err
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	w, err = newPodConn(conn)
	require.NoError(t, err)
	return w, reads
}

func TestAConnectionIsInterruptedByTheContextOfItsCallAlone(t *testing.T) {
	t.Parallel()
	w, _ := dialConn(t)
	defer func() { _ = w.Close() }()
	first, endFirst := context.WithCancel(t.Context())
	second, endSecond := context.WithCancel(t.Context())
	require.True(t, w.watch(first))
	require.True(t, w.watch(first), "the same context is watched on")
	require.True(t, w.watch(second))
	endFirst()
	require.True(t, w.watch(second))
	endSecond()
	require.False(t, w.watch(second), "a call whose context has ended does not begin")
	_, err := w.conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.False(t, w.watch(t.Context()), "an interrupted connection serves no other call")
}

func TestAnAnswerThatDoesNotEndIsCutOffAtTheTimeout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want int // 0 for an error
	}{
		"no answer":             {},
		"half a header":         {text: "HTTP/1.1 200 OK\r\nA:"},
		"half a body":           {text: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", want: 200},
		"half a reply":          {text: "HTTP/1.1 200 OK\r\nCe-Specversion: 1.0\r\nContent-Length: 100\r\n\r\nabc"},
		"half a body of errors": {text: "HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nabc", want: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := raw(t, nil, tc.text)
			target := Target{URL: sinkURL, Timeout: 50 * time.Millisecond}
			if tc.want > 0 { // the header has to come in time
				target.Timeout = 2 * time.Second
			}
			s := start(t, create(t, target, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions()))
			open(t, s)
			answer, err := s.Send(t.Context(), order("1"))
			require.Equal(t, tc.want, answer.Status)
			if tc.want == 0 {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		})
	}
}

// What follows is no body, and the connection stays open for it.
func TestAnotherProtocolBlocksNoDelivery(t *testing.T) {
	t.Parallel()
	address, _ := raw(t, nil, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
	s := run(t, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions())
	open(t, s)
	for _, size := range []int{1, maxDirect + 1} {
		ev := order("1")
		ev.Data = bytes.Repeat([]byte("x"), size)
		answer, err := s.Send(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, answer.Status)
	}
}

// A pod that answers before it has read all must not block what is still being written.
func TestAnAnswerMayComeBeforeTheRequestIsRead(t *testing.T) {
	t.Parallel()
	address := answerWithoutReading(t, "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	s := run(t, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions())
	open(t, s)
	const much = 8 << 20 // more than buffers take
	for name, ev := range map[string]*cloudevent.Event{
		"a small event":     order("1"),
		"long attributes":   {ID: "1", Source: "shop", Type: "order", Subject: strings.Repeat("x", much)},
		"much data":         {ID: "1", Source: "shop", Type: "order", Data: bytes.Repeat([]byte("x"), much)},
		"as much as we may": {ID: "1", Source: "shop", Type: "order", Data: bytes.Repeat([]byte("x"), maxDirect)},
	} {
		answer, err := s.Send(t.Context(), ev)
		require.NoError(t, err, name)
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.Status, name)
	}
}

// answerWithoutReading answers each connection once, as soon as something comes, and reads no more.
func answerWithoutReading(t *testing.T, text string) (address string) {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		_, _ = io.WriteString(conn, text)
	})
}

func TestADeliveryIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"by ourselves": 1, "by net/http": maxDirect + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			came := make(chan struct{}, 1)
			server := loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
				came <- struct{}{}
				<-r.Context().Done()
			})
			s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
			open(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			var sending sync.WaitGroup
			sending.Go(func() {
				ev := order("1")
				ev.Data = bytes.Repeat([]byte("x"), size)
				_, err := s.Send(ctx, ev)
				assert.ErrorIs(t, err, context.Canceled)
			})
			<-came
			cancel()
			sending.Wait()
		})
	}
}

// What net/http sends and what we send differ in nothing but the order of headers.
func TestSmallAndLargeEventsLookTheSame(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	target := Target{URL: "http://shop:secret@price.shop.svc.cluster.local/a%20path?q=%2F"}
	s := start(t, create(t, target, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions()))
	open(t, s)
	for i, size := range []int{0, 1, maxDirect, maxDirect + 1, 1 << 20} {
		ev := order("1")
		ev.Data = bytes.Repeat([]byte("x"), size)
		_, err := s.Send(t.Context(), ev)
		require.NoError(t, err)
		first, request := server.Requests()[0], server.Requests()[i]
		require.Equal(t, ev.Data, append([]byte{}, request.Body...))
		require.Equal(t, strconv.Itoa(size), request.Header.Get("Content-Length"))
		first.Header.Del("Content-Length")
		request.Header.Del("Content-Length")
		require.Equal(t, first.Header, request.Header)
		require.Equal(t, []string{first.Host, first.URI, first.Method}, []string{request.Host, request.URI, request.Method})
	}
}

func TestDataWithoutATypeAreSentAsTheJSONThatTheyAre(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
	open(t, s)
	for i, size := range []int{1, maxDirect} {
		body := `{"specversion":"1.0","id":"1","source":"shop","type":"order","data":"` + strings.Repeat("x", size) + `"}`
		ev, err := cloudevent.FromStructured([]byte(body))
		require.NoError(t, err)
		_, err = s.Send(t.Context(), &ev)
		require.NoError(t, err)
		require.Equal(t, "application/json", server.Requests()[i].Header.Get("Content-Type"))
	}
}

func TestAnEventThatMakesNoRequestIsUnsendable(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
	open(t, s)
	ev := order("1")
	ev.Extensions = []cloudevent.Extension{{Name: "a: b\r\nc", Value: "d"}}
	_, err := s.Send(t.Context(), ev)
	require.ErrorIs(t, err, dispatch.ErrUnsendable)
	require.Empty(t, server.Requests())
}

// oddAnswers are variants to answer an event with its own id, whole or in part. They report whether the server goes on with
// the connection.
func oddAnswers() []func(conn net.Conn, id string, giveUp func()) bool {
	write := func(conn net.Conn, text string) { _, _ = io.WriteString(conn, text) }
	plain := func(id, header string) string {
		return fmt.Sprintf("HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n%s\r\n%s", len(id), header, id)
	}
	answer := func(text func(id string) string, on bool) func(net.Conn, string, func()) bool {
		return func(conn net.Conn, id string, _ func()) bool {
			write(conn, text(id))
			return on
		}
	}
	return []func(net.Conn, string, func()) bool{
		answer(func(id string) string { return plain(id, "") }, true),
		answer(func(id string) string { return plain(id, "") }, false), // it closes after its answer
		answer(func(id string) string { return plain(id, "Connection: close\r\n") }, true),
		answer(func(id string) string {
			return "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\n\r\n" + plain(id, "")
		}, true),
		answer(func(id string) string {
			return fmt.Sprintf("HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-A: b\r\n\r\n", len(id), id)
		}, true),
		answer(func(id string) string { return plain(id, "") + plain("another's", "") }, true),
		answer(func(id string) string { return plain(id+"-half", "")[:len(plain(id+"-half", ""))-5] }, false),
		answer(func(string) string { return "HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n" }, true),
		answer(func(string) string { return "HTTP/1.1 20" }, false),
		func(conn net.Conn, id string, _ func()) bool { // byte by byte
			for _, c := range []byte(plain(id, "")) {
				write(conn, string(c))
			}
			return true
		},
		func(conn net.Conn, _ string, _ func()) bool {
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset
			return false
		},
		func(conn net.Conn, id string, giveUp func()) bool { // too late
			giveUp()
			write(conn, plain(id, ""))
			return true
		},
	}
}

// oddServer answers each event with the variant that its id begins with.
func oddServer(t *testing.T, giveUp func(id string)) (address string) {
	t.Helper()
	ways := oddAnswers()
	return listen(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		for requests := bufio.NewReader(conn); ; {
			request, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			id := request.Header.Get("Ce-Id")
			variant, _, _ := strings.Cut(id, "-")
			number, _ := strconv.Atoi(variant)
			if !ways[number](conn, id, func() { giveUp(id) }) {
				return
			}
		}
	})
}

// However a pod misbehaves, its answer to one event is never read as the answer to another.
func TestPooledConnectionsDoNotMixAnswers(t *testing.T) {
	t.Parallel()
	const senders, rounds = 8, 5
	var cancels sync.Map
	address := oddServer(t, func(id string) {
		if cancel, ok := cancels.Load(id); ok {
			cancel.(context.CancelFunc)()
		}
	})
	s := run(t, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions())
	open(t, s)
	send := func(id string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cancels.Store(id, cancel)
		answer, err := s.Send(ctx, order(id))
		if err != nil {
			assert.Zero(t, answer.Status)
			return
		}
		switch answer.Status {
		case http.StatusNoContent:
			assert.True(t, strings.HasPrefix(id, "7-"), id)
		default:
			assert.Equal(t, http.StatusInternalServerError, answer.Status, id)
			assert.Equal(t, id, answer.Excerpt)
		}
	}
	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for round := range rounds {
				for variant := range oddAnswers() {
					send(fmt.Sprintf("%d-%d-%d", variant, sender, round))
				}
			}
		})
	}
	sending.Wait()
}
