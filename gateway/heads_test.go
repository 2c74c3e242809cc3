package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

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

// ask returns the status, and the connection while the answer goes on.
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

func TestWhoAnswersWithTooMuchOfAHeadIsToldSoByItsCallers(t *testing.T) {
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
