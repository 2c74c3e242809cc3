package apirules

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// forge has a backend say how long it took.
func forge(w http.ResponseWriter) { w.Header().Set(forward.HeaderServiceTime, "999999") }

func TestAnAnswerTellsHowLongItsBackendTook(t *testing.T) {
	t.Parallel()
	const took = 20 * time.Millisecond
	slow := func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(took)
		forge(w)
	}
	service := start(t)
	service.serve(shopHost, open(service.service.address, "/*", "GET"))
	service.service.answers(slow)
	for name, f := range map[string]*fixture{"a Service": service, "a Function": withActivators(t, time.Minute, slow)} {
		told := f.get("/").Header.Values(forward.HeaderServiceTime)
		require.Len(t, told, 1, name)
		milliseconds, err := strconv.Atoi(told[0])
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, milliseconds, int(took.Milliseconds()), name)
		require.Less(t, milliseconds, 999999, name)
	}
}

func TestTheTimeOfAnUploadIsNotItsBackends(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "POST"))
	f.service.answers(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	conn := f.dial()
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: shop.example.com\r\nContent-Length: 5\r\n\r\nor")
	require.NoError(t, err)
	time.Sleep(time.Second)
	_, err = io.WriteString(conn, "der")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	milliseconds, err := strconv.Atoi(response.Header.Get(forward.HeaderServiceTime))
	require.NoError(t, err)
	require.Less(t, milliseconds, 1000)
}

func TestAnswersOfTheGatewayTellNoTimeOfABackend(t *testing.T) {
	t.Parallel()
	f := start(t)
	refusing := f.service.address
	refusing.Port = int32(loopback.Reserve(t))
	f.serve(shopHost, open(refusing, "/refuses", "GET"), within(20*time.Millisecond, f.service.address, "/hangs"))
	f.service.answers(hangs)
	for path, status := range map[string]int{
		"/refuses": http.StatusServiceUnavailable, "/hangs": http.StatusGatewayTimeout, "/unknown": http.StatusNotFound,
	} {
		got := f.get(path)
		require.Equal(t, status, got.StatusCode, path)
		require.NotContains(t, got.Header, forward.HeaderServiceTime, path)
	}
	asleep := withActivators(t, 20*time.Millisecond, nil).get("/")
	require.Equal(t, http.StatusServiceUnavailable, asleep.StatusCode)
	require.NotContains(t, asleep.Header, forward.HeaderServiceTime)
}

func TestNoBackendSaysItselfHowLongItTook(t *testing.T) {
	t.Parallel()
	forges := func(w http.ResponseWriter, r *http.Request) {
		forge(w)
		w.WriteHeader(http.StatusEarlyHints)
		if r.Header.Get("Upgrade") != "" {
			echo(w, r)
			return
		}
		_ = http.NewResponseController(w).EnableFullDuplex() // otherwise the server reads the body first
		_ = http.NewResponseController(w).Flush()
	}
	service := start(t)
	service.serve(shopHost, open(service.service.address, "/*", "GET", "POST"))
	service.service.answers(forges)
	for name, f := range map[string]*fixture{"a Service": service, "a Function": withActivators(t, time.Minute, forges)} {
		for what, text := range map[string]string{
			"before the request has ended": "POST / HTTP/1.1\r\nHost: shop.example.com\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 99999),
			"in an upgrade":                "GET / HTTP/1.1\r\nHost: shop.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		} {
			conn := f.dial()
			require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
			_, err := io.WriteString(conn, text)
			require.NoError(t, err)
			reader := bufio.NewReader(conn)
			early, err := http.ReadResponse(reader, nil)
			require.NoError(t, err, "%s %s", name, what)
			require.NoError(t, early.Body.Close())
			require.Equal(t, http.StatusEarlyHints, early.StatusCode)
			require.NotContains(t, early.Header, forward.HeaderServiceTime, "%s %s", name, what)
			last, err := http.ReadResponse(reader, nil)
			require.NoError(t, err, "%s %s", name, what)
			require.NoError(t, last.Body.Close())
			require.NotContains(t, last.Header, forward.HeaderServiceTime, "%s %s", name, what)
		}
	}
}
