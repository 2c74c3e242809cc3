package golang_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/runtimes/golang"
	"github.com/rouse-run/rouse/runtimes/language"
)

func TestSIGTERMLetsACallFinishAndTakesNoNewOne(t *testing.T) {
	t.Parallel()
	server := start(t, "slow/event", map[string]string{})
	answered := make(chan string, 1)
	go func() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url, http.NoBody)
		if err == nil {
			if answer, err := loopback.Default.Transport.RoundTrip(request); err == nil {
				text, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				answered <- string(text)
				return
			}
		}
		answered <- "no answer"
	}()
	require.Eventually(t, func() bool { return strings.Contains(server.output.String(), "began") }, testTimeout, 10*time.Millisecond)
	require.NoError(t, server.process.Signal(syscall.SIGTERM))
	require.JSONEq(t, `{"finished": true}`, <-answered)
	require.Equal(t, 0, server.wait(t))
	_, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.url, "http://"))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestSIGTERMEndsAnIdleServerAlsoWithAnOpenConnection(t *testing.T) {
	t.Parallel()
	server := start(t, "object/http", map[string]string{})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.url, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, server.process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, server.wait(t)) // in less time than a server keeps an idle connection
	require.NoError(t, conn.Close())
}

func TestASecondSignalEndsACallThatIsRunning(t *testing.T) {
	t.Parallel()
	server := start(t, "busy/event", map[string]string{"FUNC_TIMEOUT": "600"})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.url, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(server.output.String(), "began") }, testTimeout, 10*time.Millisecond)
	require.NoError(t, server.process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		// The first signal has been handled once connections are refused.
		other, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.url, "http://"))
		if err == nil {
			_ = other.Close()
		}
		return err != nil
	}, testTimeout, 10*time.Millisecond)
	require.NoError(t, server.process.Signal(syscall.SIGTERM))
	require.Equal(t, 1, server.wait(t))
	require.NoError(t, conn.Close())
}

// Errors that other languages find when they load a handler are found by the build of a compiled one, except those of
// its initialisation.
func TestHandlerThatCannotLoadReportsTheReason(t *testing.T) {
	t.Parallel()
	all := readContract(t)
	found := 0
	for _, failure := range all.LoadFailures {
		want := failure["go"]
		if want == "" {
			continue
		}
		found++
		t.Run(failure["handler"], func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join("..", "contract", "handlers", failure["handler"], "handler.go.txt"))
			require.NoError(t, err)
			said := golang.Language().Check(language.Source{File: "handler.go", Text: string(source)}, nil)
			if said != "" {
				require.Contains(t, said, want)
				return
			}
			program, err := compiled(t, string(source))
			if err != nil {
				require.ErrorContains(t, err, want)
				return
			}
			log := filepath.Join(t.TempDir(), "termination-log")
			require.NoError(t, os.WriteFile(log, nil, 0o600))
			server, listens := startProgram(t, program, map[string]string{"TERMINATION_LOG_PATH": log})
			require.False(t, listens)
			require.NotZero(t, server.wait(t))
			text, err := os.ReadFile(log)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(text), "handler did not load:\n"), string(text))
			require.Contains(t, string(text), want)
			require.Contains(t, string(text), "handler.go:")
			require.Contains(t, server.output.String(), want)
		})
	}
	require.Equal(t, 4, found)
}

// compiled returns the program of a handler.
func compiled(t *testing.T, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	layer := exec.CommandContext(t.Context(), "./layer.sh", filepath.Join(dir, "layer"), "go", dir)
	require.NoError(t, layer.Run())
	require.NoError(t, os.Mkdir(filepath.Join(dir, language.SourceDir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, language.SourceDir, "handler.go"), []byte(source), 0o600))
	program := filepath.Join(dir, "server")
	return program, dependencies.Compile(context.WithoutCancel(t.Context()), dependencies.Compilation{
		Request: dependencies.Request{
			Language: golang.Language(), Program: "go", Dir: dir, Manifest: "go.mod", Env: os.Environ(), Site: dependencies.Machine(golang.Language()),
		},
		Server: filepath.Join(dir, "layer", "usr", "src", "app"), Binary: program,
	}, io.Discard)
}

func TestLaterPanicIsInTheLogAndNotInTheStatus(t *testing.T) {
	t.Parallel()
	source := `package handler

import "net/http"

func Handle(_ http.ResponseWriter, r *http.Request) {
	go func() { panic("about " + r.URL.Path) }()
	select {}
}
`
	program, err := compiled(t, source)
	require.NoError(t, err)
	log := filepath.Join(t.TempDir(), "termination-log")
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	server, listens := startProgram(t, program, map[string]string{"TERMINATION_LOG_PATH": log})
	require.True(t, listens)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url+"/the-secret", http.NoBody)
	require.NoError(t, err)
	_, err = loopback.Default.Transport.RoundTrip(request) //nolint:bodyclose // there is no answer
	require.Error(t, err)
	require.NotZero(t, server.wait(t))
	require.Contains(t, server.output.String(), "about /the-secret")
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Empty(t, string(text))
}

func TestAServerWithTooManyCallsThatHangIsReplaced(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "termination-log")
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	server := start(t, "busy/event", map[string]string{"FUNC_TIMEOUT": "0.05", "TERMINATION_LOG_PATH": log})
	for range 60 {
		go func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url, http.NoBody)
			if err != nil {
				return
			}
			if answer, err := loopback.Default.Transport.RoundTrip(request); err == nil {
				_ = answer.Body.Close()
			}
		}()
	}
	require.Equal(t, 1, server.wait(t))
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "50 calls hang: the process ends, to be replaced\n", string(text))
}

// misstated responds with the status in the path.
func misstated(w http.ResponseWriter, r *http.Request) {
	status, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "3")
	w.WriteHeader(status)
	if _, err := io.WriteString(w, `"a"`); err != nil {
		panic(err)
	}
}

func TestInvalidStatusIsReplacedByTheServer(t *testing.T) {
	t.Parallel()
	server := start(t, "misstated", map[string]string{})
	for path, want := range map[string]struct {
		status     int
		text, says string
	}{
		"/99999": {500, "Internal Server Error", "the handler answered with the status 99999: it has to be one from 100 to 999"},
		"/99":    {500, "Internal Server Error", "the handler answered with the status 99:"},
		"/-1":    {500, "Internal Server Error", "the handler answered with the status -1:"},
		"/0":     {500, "Internal Server Error", "the handler answered with the status 0:"},
		"/999":   {999, `"a"`, ""},
		"/200":   {200, `"a"`, ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url+path, http.NoBody)
		require.NoError(t, err)
		answer, err := loopback.Default.Transport.RoundTrip(request)
		require.NoError(t, err, path)
		got, err := read(answer)
		require.NoError(t, err, path)
		require.Equal(t, want.status, got.StatusCode, path)
		require.Equal(t, want.text, got.text, path)
		require.Eventually(t, func() bool { return strings.Contains(server.output.String(), want.says) }, testTimeout, 10*time.Millisecond, want.says)
	}
	require.NotContains(t, server.output.String(), "panic")
}

func TestATokenIsReadAgainWhenItsFileChanges(t *testing.T) {
	t.Parallel()
	publisher := newRecorder(t, http.StatusNoContent)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("first\n"), 0o600))
	server := start(t, "emit-text/event", map[string]string{"PUBLISHER_PROXY_ADDRESS": publisher.URL, "PUBLISHER_TOKEN_FILE": token})
	for _, want := range []string{"Bearer first", "Bearer the-second", "Bearer the-second", ""} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url, http.NoBody)
		require.NoError(t, err)
		answer, err := loopback.Default.Transport.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		all := publisher.got(t)
		require.Equal(t, want, all[len(all)-1].header.Get("Authorization"))
		switch len(all) {
		case 1:
			require.NoError(t, os.WriteFile(token, []byte("the-second"), 0o600))
		case 2:
			require.NoError(t, os.Rename(token, token+".away")) // while it cannot be read, the last token is used
		case 3:
			require.NoError(t, os.WriteFile(token, []byte("no header\ntakes this"), 0o600))
		}
	}
}

func TestDocumentedHandlerCompiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "functions.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```go\n")
	require.True(t, found)
	source, _, _ := strings.Cut(rest, "```")
	require.Empty(t, golang.Language().Check(language.Source{File: "handler.go", Text: source}, nil))
	_, err = compiled(t, source)
	require.NoError(t, err)
}

// upgraded is a handler that takes over the connection, and responds to each line after the call's timeout.
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

// upgrade requests another protocol, and returns the connection after the switch.
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

// lasting is a handler whose calls last as long as their clients want, or longer.
func lasting(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hang" {
		select {}
	}
	_, _ = io.WriteString(w, "x")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

type podLoad struct{ Requests, Running, ViaGateway, ViaEventbridge int }

// requireLoad waits until the server reports this load.
func requireLoad(t *testing.T, server *started, want podLoad) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url+"/.well-known/rouse/load", http.NoBody)
		require.NoError(c, err)
		answer, err := loopback.Default.Transport.RoundTrip(request)
		require.NoError(c, err)
		defer func() { _ = answer.Body.Close() }()
		var got podLoad
		require.NoError(c, json.NewDecoder(answer.Body).Decode(&got))
		require.Equal(c, want, got)
	}, testTimeout, 10*time.Millisecond)
}

// sent writes a request to a new connection.
func (s *started) sent(t *testing.T, request string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	return conn
}

func TestAStreamIsUnderWayUntilItEnds(t *testing.T) {
	t.Parallel()
	server := start(t, "lasting", map[string]string{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.url, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Rouse-Via", "gateway")
	answer, err := loopback.Default.Transport.RoundTrip(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	requireLoad(t, server, podLoad{Requests: 1, Running: 1, ViaGateway: 1})
	cancel()
	requireLoad(t, server, podLoad{Requests: 1})
}

func TestCallOfADisconnectedClientEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	server := start(t, "lasting", map[string]string{"FUNC_TIMEOUT": "0.5"})
	require.NoError(t, server.sent(t, "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n").Close())
	requireLoad(t, server, podLoad{Requests: 1})
	require.NoError(t, server.process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, server.wait(t))
}

func TestMissingBodyIsRespondedToAtTheTimeout(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"text/plain", "application/cloudevents+json"} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			server := start(t, "text/event", map[string]string{"FUNC_TIMEOUT": "0.5"})
			conn := server.sent(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nContent-Type: "+contentType+"\r\n\r\n{")
			first := make([]byte, len("HTTP/1.1 408"))
			_, err := io.ReadFull(conn, first)
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 408", string(first))
			requireLoad(t, server, podLoad{Requests: 1})
		})
	}
}
