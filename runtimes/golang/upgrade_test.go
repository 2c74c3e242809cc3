package golang_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// upgraded is a handler that takes the connection, and answers each line of it after the call's time is over.
func upgraded(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	answer := func() {
		defer func() { _ = conn.Close() }()
		for {
			line, err := buffered.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "got "+line)
		}
	}
	switch r.URL.Path {
	case "/later":
		go answer()
	case "/panic":
		panic("after the answer")
	case "/slow":
		time.Sleep(time.Second)
		if r.Context().Err() == nil {
			answer()
		}
	default:
		answer()
	}
}

// upgrade asks for another protocol, and returns the connection once the Function speaks it.
func (s *started) upgrade(t *testing.T, path string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := s.sent(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil) //nolint:bodyclose // it has none
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	return conn, reader
}

func requireAnswer(t *testing.T, conn net.Conn, reader *bufio.Reader) {
	t.Helper()
	_, err := io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "got hello\n", line)
}

func TestAnUpgradedConnectionIsUnderWayUntilItIsClosed(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/later"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			server := start(t, "upgraded", map[string]string{})
			conn, reader := server.upgrade(t, path)
			requireAnswer(t, conn, reader)
			requireLoad(t, server, podLoad{Requests: 1, Running: 1})
			require.NoError(t, conn.Close())
			requireLoad(t, server, podLoad{Requests: 1})
		})
	}
}

func TestAnUpgradedConnectionLastsLongerThanACallMay(t *testing.T) {
	t.Parallel()
	server := start(t, "upgraded", map[string]string{"FUNC_TIMEOUT": "0.5"})
	conn, reader := server.upgrade(t, "/slow")
	requireAnswer(t, conn, reader)
}

func TestAHandlerThatPanicsClosesTheConnectionItHasTaken(t *testing.T) {
	t.Parallel()
	server := start(t, "upgraded", map[string]string{})
	_, reader := server.upgrade(t, "/panic")
	_, err := reader.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
	requireLoad(t, server, podLoad{Requests: 1})
}

func TestAnUpgradedConnectionHasTheTimeOfACallToEndWithTheProcess(t *testing.T) {
	t.Parallel()
	server := start(t, "upgraded", map[string]string{"FUNC_TIMEOUT": "1"})
	conn, reader := server.upgrade(t, "/")
	require.NoError(t, server.process.Signal(syscall.SIGTERM))
	requireAnswer(t, conn, reader)
	require.Equal(t, 0, server.wait(t))
	_, err := reader.ReadString('\n')
	require.Error(t, err)
}
