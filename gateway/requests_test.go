package gateway

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// streaming is a backend that answers the path of a request with one of its heads, and then with a body that does not end.
type streaming struct {
	*outside

	heads    map[string]string
	listener net.Listener
	port     string
	held     sync.WaitGroup
}

func (s *streaming) answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"+s.heads[request.URL.Path]+"\r\n4\r\ndata\r\n"); err != nil {
			return
		}
	}
}

// Watch implements activate.Endpoints.
func (s *streaming) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	apply([]routing.Endpoint{{Address: s.listener.Addr().String(), Ready: true, Function: true}})
	<-ctx.Done()
	return nil
}

func startStreaming(t *testing.T, heads map[string]string) *streaming {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", loopback.Host+":0")
	require.NoError(t, err)
	s := &streaming{heads: heads, listener: listener}
	t.Cleanup(func() {
		_ = listener.Close()
		s.held.Wait()
	})
	s.held.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.held.Go(func() { s.answer(conn) })
		}
	})
	s.outside = startOutside(t, func(d *Deps, _ *Options) { d.Endpoints = s })
	listed := price(int32(loopback.Reserve(t)))
	s.port = addressOf(listed.Port)
	s.listings <- []activation.Listing{listed}
	address := listener.Addr().(*net.TCPAddr)
	s.exposures <- []apirule.Exposure{exposed("web.example.com", apirule.Backend{
		Service: types.NamespacedName{Namespace: "shop", Name: "web"}, Address: loopback.Host, Port: int32(address.Port),
	})}
	s.awaitStatus(s.options.MetricsAddress, "/readyz", http.StatusOK)
	s.awaitStatus(s.port, "/healthz", http.StatusOK)
	return s
}

// ask returns the status, and the connection while the response continues.
func (s *streaming) ask(t *testing.T, address, path string) (int, *bufio.Reader, net.Conn) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: web.example.com\r\n\r\n")
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Greater(t, len(line), 12, line)
	return int(line[9]-'0')*100 + int(line[10]-'0')*10 + int(line[11]-'0'), reader, conn
}

// Measured before heads were counted: 11 MiB for one of 250 KiB in lines of four bytes.
func TestTheHeadOfAnAnswerTakesNoMoreMemoryThanItIsChargedFor(t *testing.T) { // not parallel: it measures the heap
	const answers = 50
	longest := strings.Repeat("a:"+strings.Repeat("x", httplimit.MaxHeadBytes/httplimit.MaxHeadLines-8)+"\r\n", httplimit.MaxHeadLines-1)
	s := startStreaming(t, map[string]string{"/short": "", "/longest": longest})
	heap := func(address, path string) uint64 {
		conns := make([]net.Conn, 0, answers)
		for range answers {
			status, reader, conn := s.ask(t, address, path)
			require.Equal(t, http.StatusOK, status)
			for line := ""; line != "data\r\n"; {
				var err error
				line, err = reader.ReadString('\n')
				require.NoError(t, err)
			}
			conns = append(conns, conn)
		}
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
		return stats.HeapAlloc
	}
	for name, address := range map[string]string{"a Function": s.port, "a Service": s.options.Entrance.HTTPAddress} {
		heap(address, "/short") // what is there once
		before, after := heap(address, "/short"), heap(address, "/longest")
		each := (int64(after) - int64(before)) / answers
		t.Logf("%s: %d bytes for a head", name, each)
		require.Less(t, each, int64(httplimit.HeadCost), name)
	}
}

func TestAResponseWithATooLargeHeadGetsTheReason(t *testing.T) {
	t.Parallel()
	s := startStreaming(t, map[string]string{
		"/lines": strings.Repeat("a:\r\n", 64<<10), "/more": strings.Repeat("a:\r\n", httplimit.MaxHeadLines+1),
		"/bytes": "a: " + strings.Repeat("a", 250<<10) + "\r\n",
	})
	for path, says := range map[string]string{"/lines": "more than 64 lines", "/more": "more than 64 lines", "/bytes": "more than 16384 bytes"} {
		for _, address := range []string{s.port, s.options.Entrance.HTTPAddress} {
			status, reader, conn := s.ask(t, address, path)
			require.Equal(t, http.StatusBadGateway, status, path)
			answer, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 502 Bad Gateway\r\n"), reader)), nil)
			require.NoError(t, err)
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Contains(t, string(text), says, path)
			require.NoError(t, conn.Close())
		}
	}
}

// hidden is a request that must not be processed: it follows a body that did not reach its end.
const hidden = "POST /hidden HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n"

// unfinished are bodies without an end, and what a gateway answers of its own to them.
var unfinished = map[string]struct {
	header, body string
	ends         bool // the client closes its side
	long         bool // it is refused before all of it was read
	status       int
}{
	"that stops":                    {header: "Content-Length: 100", body: "{", status: http.StatusRequestTimeout},
	"that stops before it begins":   {header: "Content-Length: 100", status: http.StatusRequestTimeout},
	"of chunks that stops":          {header: "Transfer-Encoding: chunked", body: "1\r\n{\r\n5\r\nab", status: http.StatusRequestTimeout},
	"whose trailer stops":           {header: "Transfer-Encoding: chunked", body: "0\r\nGET /hidden HTTP/1.1\nHost: HOST\n\n", status: http.StatusBadRequest},
	"whose client closes its side":  {header: "Content-Length: 100", body: "{", ends: true, status: http.StatusBadRequest},
	"with an invalid chunk":         {header: "Transfer-Encoding: chunked", body: "1\r\n{\r\nx\r\n" + hidden, status: http.StatusBadRequest},
	"with a chunk that is too long": {header: "Transfer-Encoding: chunked", body: "1\r\n{{\r\n" + hidden, status: http.StatusBadRequest},
	"with a trailer that is none":   {header: "Transfer-Encoding: chunked", body: "0\r\nnone\r\n\r\n" + hidden, status: http.StatusBadRequest},
	"whose trailer has no end":      {header: "Transfer-Encoding: chunked", body: "0\r\na: " + strings.Repeat("x", 8<<10) + "\r\n\r\n" + hidden, long: true, status: http.StatusBadRequest},
}

// ways lead through a gateway, each to one kind of answer.
type ways struct {
	*outside

	backend        *httptest.Server
	hidden         atomic.Int64 // smuggled requests that arrived
	awake, sleeper string       // the activator ports of a Function with a pod, and of one without
}

// ServeHTTP is the backend.
func (w *ways) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/hidden":
		w.hidden.Add(1)
	case "/refused":
		answer.WriteHeader(http.StatusRequestEntityTooLarge)
	default:
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(answer, "whole")
	}
}

// Watch implements activate.Endpoints.
func (w *ways) Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	switch service.Name {
	case "price":
		apply([]routing.Endpoint{{Address: w.backend.Listener.Addr().String(), Ready: true, Function: true}})
	case "web":
		return onLoopback{}.Watch(ctx, service, port, apply)
	}
	<-ctx.Done()
	return nil
}

// startWays serves Functions and Services by APIRules, and the Functions at their activator ports. Nobody may be silent for long.
func startWays(t *testing.T) *ways {
	t.Helper()
	w := &ways{}
	w.backend = httptest.NewServer(w)
	t.Cleanup(w.backend.Close)
	w.outside = startOutside(t, func(d *Deps, o *Options) {
		const short = 50 * time.Millisecond
		d.Endpoints, o.Activator.BodyTimeout, o.Activator.Wait, o.Entrance.ReadTimeout = w, short, short, short
	})
	awake, sleeper := price(int32(loopback.Reserve(t))), price(int32(loopback.Reserve(t)))
	sleeper.Function.Name, sleeper.UID = "sleeper", "2"
	w.awake, w.sleeper = addressOf(awake.Port), addressOf(sleeper.Port)
	w.listings <- []activation.Listing{awake, sleeper}
	post := func(rule *v2.Rule) { rule.Methods = []v2.Method{"POST"} }
	function := func(name string) apirule.Backend {
		return apirule.Backend{Service: types.NamespacedName{Namespace: "shop", Name: name}, Address: "10.0.0.1", Port: 80, Wakes: true}
	}
	web := func(port int) apirule.Backend {
		return apirule.Backend{Service: types.NamespacedName{Namespace: "shop", Name: "web"}, Address: loopback.Host, Port: int32(port)}
	}
	listening, ok := w.backend.Listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	sleeps := exposed("sleeper.example.com", function("sleeper"), post)
	sleeps.Rules[0].Timeout = 50 * time.Millisecond
	w.exposures <- []apirule.Exposure{
		sleeps, exposed("service.example.com", web(listening.Port), post),
		exposed("refusing.example.com", web(loopback.Reserve(t)), post),
		exposed("function.example.com", function("price"), post),
		exposed("closed.example.com", function("price"), post, func(r *v2.Rule) { r.NoAuth = nil }),
	}
	w.awaitStatus(w.options.MetricsAddress, "/readyz", http.StatusOK)
	for _, port := range []string{w.awake, w.sleeper} {
		w.awaitStatus(port, "/healthz", http.StatusOK)
	}
	return w
}

// way is one of them. Its answers are those to an unfinished body, or of its own.
type way struct {
	address, host, path string
	secure              bool
	own                 int  // whatever the body is
	refused             bool // the backend may have answered before the body was over
}

func (w *ways) all() map[string]way {
	all := map[string]way{
		"a Function at its port": {address: w.awake}, "a Function at its port that refuses": {address: w.awake, path: "/refused", refused: true},
		"a Function that sleeps at its port": {address: w.sleeper, own: http.StatusServiceUnavailable},
	}
	for name, to := range map[string]way{
		"a Service": {host: "service"}, "a Service that refuses": {host: "service", path: "/refused", refused: true},
		"a Service that refuses connections": {host: "refusing", own: http.StatusServiceUnavailable},
		"a Function":                         {host: "function"}, "a Function that refuses": {host: "function", path: "/refused", refused: true},
		"a Function that sleeps": {host: "sleeper", own: http.StatusServiceUnavailable},
		"a closed rule":          {host: "closed", own: http.StatusServiceUnavailable},
		"an unknown host":        {host: "unknown", own: http.StatusNotFound},
	} {
		to.host += ".example.com"
		to.address = w.options.Entrance.HTTPAddress
		all[name+" by HTTP"] = to
		to.address, to.secure = w.options.Entrance.TLSAddress, true
		all[name+" by HTTPS"] = to
	}
	return all
}

func (w *ways) dial(t *testing.T, to way) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", to.address)
	require.NoError(t, err)
	if to.secure {
		config := w.client.Clone()
		config.ServerName, config.NextProtos = to.host, []string{"http/1.1"}
		conn = tls.Client(conn, config)
	}
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// requireLastAnswer is met by one answer, behind which the connection is over. Who still sends may find it reset instead.
func requireLastAnswer(t *testing.T, conn net.Conn, sends bool, hidden string, statuses ...int) {
	t.Helper()
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodPost})
	if sends && errors.Is(err, syscall.ECONNRESET) {
		return
	}
	require.NoError(t, err)
	require.Contains(t, statuses, answer.StatusCode)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err, "the answer is whole")
	require.NoError(t, answer.Body.Close())
	require.True(t, answer.Close, "the client is told that it was the last one")
	_, _ = io.WriteString(conn, hidden)
	rest, _ := io.ReadAll(reader)
	require.Empty(t, string(rest), "no second answer")
}

func TestAConnectionEndsWithABodyThatDidNotReachItsEnd(t *testing.T) {
	t.Parallel()
	w := startWays(t)
	t.Run("ways", func(t *testing.T) {
		for name, to := range w.all() {
			for kind, sent := range unfinished {
				t.Run(name+", a body "+kind, func(t *testing.T) {
					t.Parallel()
					conn, next := w.dial(t, to), strings.ReplaceAll(hidden, "HOST", to.host)
					_, err := io.WriteString(conn, "POST "+cmp.Or(to.path, "/")+" HTTP/1.1\r\nHost: "+to.host+"\r\n"+sent.header+"\r\n\r\n"+
						strings.ReplaceAll(sent.body, "HOST", to.host))
					require.True(t, err == nil || sent.long, err)
					if half, ok := conn.(interface{ CloseWrite() error }); ok && sent.ends {
						require.NoError(t, half.CloseWrite())
					}
					statuses := []int{cmp.Or(to.own, sent.status)}
					if to.refused {
						statuses = append(statuses, http.StatusRequestEntityTooLarge)
					}
					requireLastAnswer(t, conn, sent.long, next, statuses...)
				})
			}
		}
	})
	require.Zero(t, w.hidden.Load())
}

// A refused client may continue to send for as long as a gateway reads, by time or by bytes, and then sends what looks
// like a request.
func TestAConnectionEndsWithABodyThatGoesOnBehindItsAnswer(t *testing.T) {
	t.Parallel()
	w := startWays(t)
	t.Run("ways", func(t *testing.T) {
		for name, to := range w.all() {
			if !to.refused && to.own == 0 {
				continue
			}
			next := strings.ReplaceAll(hidden, "HOST", to.host)
			statuses := []int{cmp.Or(to.own, http.StatusRequestEntityTooLarge), http.StatusRequestTimeout}
			t.Run(name+", for long", func(t *testing.T) {
				t.Parallel()
				conn := w.dial(t, to)
				_, err := io.WriteString(conn, "POST "+cmp.Or(to.path, "/")+" HTTP/1.1\r\nHost: "+to.host+"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
				require.NoError(t, err)
				chunk, ended := "400\r\n"+strings.Repeat("x", 1<<10)+"\r\n", make(chan struct{})
				go func() {
					defer close(ended)
					for err := error(nil); err == nil; time.Sleep(5 * time.Millisecond) {
						_, err = io.WriteString(conn, chunk)
					}
				}()
				requireLastAnswer(t, conn, true, "", statuses...)
				<-ended
			})
			t.Run(name+", and is large", func(t *testing.T) {
				t.Parallel()
				conn := w.dial(t, to)
				_, err := io.WriteString(conn, "POST "+cmp.Or(to.path, "/")+" HTTP/1.1\r\nHost: "+to.host+"\r\nContent-Length: 1099511627776\r\n\r\n")
				require.NoError(t, err)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for err := error(nil); err == nil; {
						_, err = io.WriteString(conn, strings.Repeat(next, 1000))
					}
				}()
				requireLastAnswer(t, conn, true, "", statuses...)
				<-ended
			})
		}
	})
	require.Zero(t, w.hidden.Load())
}
