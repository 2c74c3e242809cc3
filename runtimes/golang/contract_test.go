package golang_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/runtimes/contract/handlers"
	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// handlerVariable makes this program run the named handler as a Function.
const handlerVariable = "CONTRACT_HANDLER"

// own are the handlers for features of Go only.
var own = map[string]func(){
	"misstated": func() { function.Serve(misstated) },
	"lasting":   func() { function.Serve(lasting) },
	"upgraded":  func() { function.Serve(upgraded) },
}

func TestMain(m *testing.M) {
	if name := os.Getenv(handlerVariable); name != "" {
		if serve, ok := handlers.Served[name]; ok {
			serve()
		}
		own[name]()
	}
	os.Exit(m.Run())
}

// contract is the part of the contract that all runtimes share.
type contract struct {
	Environment  map[string]string
	Variants     map[string]variant
	Requests     []request
	LoadFailures []map[string]string
}

type variant struct {
	name, File, Runtime string
	BodyLimit           map[string]string
}

type request struct {
	Name, Handler   string
	Environment     map[string]string
	Only            []string
	PublisherStatus int
	LimitBody       bool
	MemoryLimit     int
	step
	Held, Then     []step
	Emitted        map[string]any
	EmittedHeaders map[string]string
	Spans          []wantedSpan
}

type step struct {
	Request struct {
		Method, Path, Body string
		Headers            map[string]string
		BodyLength         int
	}
	Response struct {
		Status   int
		Headers  map[string]*string
		JSON     any `json:"json"`
		Text     *string
		FoldCase bool
		Matches  map[string][]string
	}
	Eventually bool
}

type wantedSpan struct {
	Kind, TraceID, ParentSpanID, Status string
	Attributes                          map[string]any
}

func readContract(t *testing.T) contract {
	t.Helper()
	var all contract
	files, err := filepath.Glob("../contract/cases/*.json")
	require.NoError(t, err)
	for _, file := range append([]string{"../contract/cases.json"}, files...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var more contract
		require.NoError(t, json.Unmarshal(text, &more), file)
		all.Requests = append(all.Requests, more.Requests...)
		all.LoadFailures = append(all.LoadFailures, more.LoadFailures...)
		if more.Variants != nil {
			all.Variants, all.Environment = more.Variants, more.Environment
		}
	}
	for name, each := range all.Variants {
		each.name = name
		all.Variants[name] = each
		if !strings.HasPrefix(name, "go-") {
			delete(all.Variants, name)
		}
	}
	require.Len(t, all.Variants, 2)
	return all
}

func TestServerFulfilsTheContract(t *testing.T) {
	t.Parallel()
	all := readContract(t)
	for _, variant := range all.Variants {
		for _, each := range all.Requests {
			if len(each.Only) > 0 && !slices.Contains(each.Only, variant.name) {
				continue
			}
			t.Run(variant.name+" "+each.Name, func(t *testing.T) {
				t.Parallel()
				each.run(t, all.Environment, variant)
			})
		}
	}
}

func (c request) run(t *testing.T, shared map[string]string, v variant) {
	t.Helper()
	publisher := newRecorder(t, cmp.Or(c.PublisherStatus, http.StatusNoContent))
	env := map[string]string{"FUNC_RUNTIME": v.Runtime, "PUBLISHER_PROXY_ADDRESS": publisher.URL + "/publish"}
	for _, more := range []map[string]string{shared, c.Environment} {
		maps.Copy(env, more)
	}
	if c.LimitBody {
		maps.Copy(env, v.BodyLimit)
	}
	if c.MemoryLimit > 0 {
		env["FUNC_CGROUP"] = t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(env["FUNC_CGROUP"], "memory.max"), fmt.Appendln(nil, c.MemoryLimit), 0o600))
	}
	collector := newRecorder(t, http.StatusOK)
	if c.Spans != nil {
		env["TRACE_COLLECTOR_ENDPOINT"] = collector.URL + "/v1/traces"
	}
	server := start(t, c.Handler+"/"+v.File, env)
	held := make([]net.Conn, len(c.Held))
	for i, each := range c.Held {
		held[i] = each.hold(t, server)
	}
	c.step.run(t, server, v)
	for i, each := range c.Held {
		each.finish(t, held[i], v)
	}
	for _, each := range c.Then {
		each.run(t, server, v)
	}
	if c.Emitted != nil {
		publisher.requireEmitted(t, c.Emitted)
	}
	for name, pattern := range c.EmittedHeaders {
		requirePattern(t, pattern, publisher.got(t)[0].header.Get(name), name)
	}
	if c.Spans != nil {
		require.NoError(t, server.process.Signal(syscall.SIGTERM)) // a server sends its remaining spans when it ends
		require.Equal(t, 0, server.wait(t))
		requireSpans(t, collector.got(t), c.Spans)
	}
}

func (s step) run(t *testing.T, server *started, v variant) {
	t.Helper()
	once := func(reports require.TestingT) {
		got, err := s.send(t.Context(), server)
		require.NoError(reports, err)
		s.check(reports, got, v)
	}
	if !s.Eventually {
		once(t)
		return
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { once(c) }, testTimeout, 10*time.Millisecond)
}

// answered is a response whose body has been read.
type answered struct {
	*http.Response

	text string
}

func read(answer *http.Response) (answered, error) {
	text, err := io.ReadAll(answer.Body)
	return answered{Response: answer, text: string(text)}, errors.Join(err, answer.Body.Close())
}

func (s step) send(ctx context.Context, server *started) (answered, error) {
	body := s.Request.Body
	if length := s.Request.BodyLength; length > 0 {
		body = strings.Repeat(cmp.Or(body, "x"), length)[:length]
	}
	made, err := http.NewRequestWithContext(ctx, s.Request.Method, server.url+s.Request.Path, strings.NewReader(body))
	if err != nil {
		return answered{}, err
	}
	for name, value := range s.Request.Headers {
		made.Header.Set(name, value)
	}
	answer, err := loopback.Default.Transport.RoundTrip(made)
	if err != nil {
		return answered{}, err
	}
	return read(answer)
}

// hold sends a request except the last byte of its body.
func (s step) hold(t *testing.T, server *started) net.Conn {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", s.Request.Method, s.Request.Path, len(s.Request.Body))
	for name, value := range s.Request.Headers {
		fmt.Fprintf(&text, "%s: %s\r\n", name, value)
	}
	return server.sent(t, text.String()+"\r\n"+s.Request.Body[:len(s.Request.Body)-1])
}

// finish sends the last byte.
func (s step) finish(t *testing.T, conn net.Conn, v variant) {
	t.Helper()
	_, err := io.WriteString(conn, s.Request.Body[len(s.Request.Body)-1:])
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	got, err := read(answer)
	require.NoError(t, err)
	s.check(t, got, v)
}

func (s step) check(t require.TestingT, answer answered, v variant) {
	text := answer.text
	require.Equal(t, s.Response.Status, answer.StatusCode, text)
	for name, pattern := range s.Response.Headers {
		got := answer.Header.Get(name)
		if name == "connection" && answer.Close {
			got = "close" // the client removes the header
		}
		if pattern == nil {
			require.Empty(t, got, name)
			continue
		}
		requirePattern(t, *pattern, got, name)
	}
	if s.Response.JSON != nil {
		want, err := json.Marshal(s.Response.JSON)
		require.NoError(t, err)
		require.JSONEq(t, strings.ReplaceAll(string(want), "$runtime", v.Runtime), text)
	}
	if want := s.Response.Text; want != nil {
		if s.Response.FoldCase {
			text = strings.ToLower(text)
		}
		require.Equal(t, *want, strings.TrimSuffix(text, "\n"))
	}
	for _, pattern := range s.Response.Matches["go"] {
		require.Regexp(t, "(?m)"+pattern, text)
	}
}

// requirePattern also supports the look-ahead of the patterns: an id that is not all zeros.
func requirePattern(t require.TestingT, pattern, text, name string) {
	ahead := regexp.MustCompile(`\(\?!0\{(\d+)\}-\)`)
	require.Regexp(t, ahead.ReplaceAllString(pattern, ""), text, name)
	if ahead.MatchString(pattern) {
		require.NotRegexp(t, `-0{32}-|-0{16}-`, text, name)
	}
}

// started is a listening Function.
type started struct {
	url     string
	process *os.Process
	output  *synchronized
	ended   chan int
}

func start(t *testing.T, handler string, env map[string]string) *started {
	t.Helper()
	require.True(t, handlers.Served[handler] != nil || own[handler] != nil, handler)
	program, err := os.Executable()
	require.NoError(t, err)
	env[handlerVariable] = handler
	s, listens := startProgram(t, program, env)
	require.True(t, listens, s.output.String())
	return s
}

// startProgram returns false for a program that ended before it listened.
func startProgram(t *testing.T, program string, env map[string]string) (*started, bool) {
	t.Helper()
	ready, writer, err := os.Pipe()
	require.NoError(t, err)
	s := &started{output: &synchronized{}, ended: make(chan int, 1)}
	command := exec.CommandContext(t.Context(), program)
	command.Env = []string{"FUNC_PORT=0", "FUNC_READY_FD=3"}
	if env["TERMINATION_LOG_PATH"] == "" {
		command.Env = append(command.Env, "TERMINATION_LOG_PATH="+os.DevNull)
	}
	for name, value := range env {
		command.Env = append(command.Env, name+"="+value)
	}
	command.ExtraFiles = []*os.File{writer}
	command.Stdout, command.Stderr = s.output, s.output
	require.NoError(t, command.Start())
	require.NoError(t, writer.Close())
	s.process = command.Process
	go func() {
		_ = command.Wait()
		s.ended <- command.ProcessState.ExitCode()
	}()
	t.Cleanup(func() { _ = s.process.Kill() })
	port, err := bufio.NewReader(ready).ReadString('\n')
	require.NoError(t, ready.Close())
	if err != nil {
		return s, false
	}
	s.url = "http://127.0.0.1:" + strings.TrimSpace(port)
	return s, true
}

const testTimeout = time.Minute

func (s *started) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-s.ended:
		return code
	case <-time.After(testTimeout):
		require.FailNow(t, "it does not end", s.output.String())
		return -1
	}
}

// synchronized is output for concurrent use.
type synchronized struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *synchronized) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *synchronized) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// recorder is a publisher or a collector.
type recorder struct {
	*httptest.Server

	mu    sync.Mutex
	taken []taken
}

type taken struct {
	path   string
	header http.Header
	body   map[string]any
}

func newRecorder(t *testing.T, status int) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(request.Body).Decode(&body)
		r.mu.Lock()
		r.taken = append(r.taken, taken{path: request.URL.Path, header: request.Header, body: body})
		r.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) got(t *testing.T) []taken {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.taken)
	return slices.Clone(r.taken)
}

func (r *recorder) requireEmitted(t *testing.T, want map[string]any) {
	t.Helper()
	all := r.got(t)
	require.Len(t, all, 1)
	require.Equal(t, "/publish", all[0].path)
	require.Equal(t, "application/cloudevents+json", all[0].header.Get("Content-Type"))
	event := all[0].body
	require.NotEmpty(t, event["id"])
	_, err := time.Parse(time.RFC3339Nano, event["time"].(string))
	require.NoError(t, err)
	delete(event, "id")
	delete(event, "time")
	require.Equal(t, want, event)
}

func requireSpans(t *testing.T, sent []taken, want []wantedSpan) {
	t.Helper()
	kinds, statuses := map[float64]string{2: "server", 3: "client"}, map[float64]string{0: "unset", 1: "ok", 2: "error"}
	var spans []map[string]any
	for _, each := range sent {
		text, err := json.Marshal(each.body)
		require.NoError(t, err)
		var parsed struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []map[string]any }
			}
		}
		require.NoError(t, json.Unmarshal(text, &parsed))
		for _, resource := range parsed.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}
	require.Len(t, spans, len(want))
	for _, wanted := range want {
		at := slices.IndexFunc(spans, func(s map[string]any) bool { return kinds[s["kind"].(float64)] == wanted.Kind })
		require.GreaterOrEqual(t, at, 0)
		span := spans[at]
		code := 0.0
		if status, ok := span["status"].(map[string]any); ok {
			code = status["code"].(float64)
		}
		require.Equal(t, cmp.Or(wanted.Status, "unset"), statuses[code])
		for key, value := range map[string]string{"traceId": wanted.TraceID, "parentSpanId": wanted.ParentSpanID} {
			if value != "" {
				require.Equal(t, value, span[key])
			}
		}
		found := attributesOf(span)
		for name, value := range wanted.Attributes {
			require.Equal(t, value, found[name], name)
		}
	}
}

func attributesOf(span map[string]any) map[string]any {
	found := map[string]any{}
	for _, each := range span["attributes"].([]any) {
		attribute := each.(map[string]any)
		value := attribute["value"].(map[string]any)
		if text, ok := value["intValue"].(string); ok {
			var number float64
			_ = json.Unmarshal([]byte(text), &number)
			found[attribute["key"].(string)] = number
			continue
		}
		found[attribute["key"].(string)] = value["stringValue"]
	}
	return found
}
