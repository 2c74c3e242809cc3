package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/internal/activation"
)

func TestInvokeWritesTheResponseAndItsStatus(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, "%s %s %s x=%s type=%s %s", r.Method, r.URL, r.Header.Get("Content-Type"), r.Header.Get("X-A"), r.Header.Get("Ce-Type"), body)
	})
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a call":             {nil, "GET /  x= type= "},
		"by namespace":       {[]string{"-n", "orders"}, "GET /  x= type= "},
		"with data":          {[]string{"-d", `{"a":1}`, "--path", "/in?b=2"}, `POST /in?b=2 application/json x= type= {"a":1}`},
		"with headers":       {[]string{"-X", "put", "-d", "z", "-H", "content-type: text/plain", "-H", "x-a: 1"}, "PUT / text/plain x=1 type= z"},
		"data of the input":  {[]string{"-d", "@-"}, "POST / application/json x= type= typed"},
		"an event":           {[]string{"--event", "order.received", "-d", "{}"}, "POST / application/json x= type=order.received {}"},
		"an event, no data":  {[]string{"--event", "order.received"}, "POST /  x= type=order.received "},
		"with its namespace": {nil, "GET /  x= type= "},
	} {
		fn := "pricing"
		if name == "with its namespace" {
			fn = "orders/pricing"
		}
		got := w.runWith(t, "typed", append([]string{"invoke", fn}, tc.args...)...)
		require.Equal(t, ran{0, tc.want, "202 Accepted\n"}, got, name)
	}
}

func TestInvokeOfAFailingFunctionEndsWithRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such order", http.StatusNotFound) })
	got := w.run(t, "invoke", "pricing")
	require.Equal(t, ran{5, "no such order\n", "404 Not Found\nrouse: Function pricing answered 404\n"}, got)
}

func TestInvokeSaysThatAnOlderVersionAnswers(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(activation.HeaderOlder, "orders/pricing.yaml:12: TypeError: no price (exit status 1)")
		_, _ = io.WriteString(w, "old\n")
	})
	require.Equal(t, ran{
		0, "old\n", "an older version of Function pricing answers; the newest does not run: " +
			"orders/pricing.yaml:12: TypeError: no price (exit status 1)\n200 OK\n",
	}, w.run(t, "invoke", "pricing"))
}

func TestInvokeEndsTheLastLineOnATerminalAlone(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{"open": "open\r\n", "closed\n": "closed\r\n"} {
		w := newFixture(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		require.Equal(t, body, w.run(t, "invoke", "pricing").out)
		terminal, shown, err := pty.Open()
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = terminal.Close(), shown.Close() })
		code := Main(t.Context(), []string{"invoke", "pricing", "--dir", w.directory}, Streams{In: strings.NewReader(""), Out: shown, Err: io.Discard})
		require.Zero(t, code)
		content := make([]byte, len(want))
		_, err = io.ReadFull(terminal, content)
		require.NoError(t, err)
		require.Equal(t, want, string(content))
	}
}

func TestInvokeRetriesUntilTheFunctionHasStarted(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{activation.RefusedTimeout, activation.RefusedOverload} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			w := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					w.Header().Set(activation.HeaderRefused, reason)
					http.Error(w, "it is still starting", http.StatusServiceUnavailable)
					return
				}
				_, _ = io.Copy(w, r.Body)
			})
			got := w.run(t, "invoke", "pricing", "-d", "order")
			require.Equal(t, 0, got.code, got.err)
			require.Equal(t, "order", got.out)
			require.Equal(t, int32(2), calls.Load())
		})
	}
}

func TestInvokeShowsWhyAFunctionDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(activation.HeaderRefused, "broken")
		http.Error(w, "Function orders/pricing does not run: HandlerFailed", http.StatusServiceUnavailable)
	})
	got := w.run(t, "invoke", "pricing")
	require.Equal(t, ran{
		5, "Function orders/pricing does not run: HandlerFailed\n",
		"503 Service Unavailable\nrouse: Function pricing answered 503\n",
	}, got)
}

func TestInvokeReportsErrors(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no Function":                    {nil, 2, "the Function is missing: rouse invoke FUNCTION"},
		"an unknown Function":            {[]string{"princing"}, 3, "there is no Function princing; there are orders/broken, orders/pricing"},
		"in another namespace":           {[]string{"pricing", "-n", "shop"}, 3, "there is no Function pricing in namespace shop"},
		"two namespaces":                 {[]string{"orders/pricing", "-n", "shop"}, 2, "--namespace shop and orders/pricing contradict"},
		"no name":                        {[]string{"orders/"}, 2, `"orders/" is not the name of a Function`},
		"a Function that does not start": {[]string{"broken"}, 1, "Function orders/broken does not run: handler.py:3: no"},
		"a header without colon":         {[]string{"pricing", "-H", "a"}, 2, `--header "a": write it as 'name: value'`},
		"a malformed method":             {[]string{"pricing", "-X", "a b"}, 2, `--request "a b"`},
		"a missing file":                 {[]string{"pricing", "-d", "@/does/not/exist"}, 2, "--data: open /does/not/exist"},
	} {
		got := w.run(t, append([]string{"invoke"}, tc.args...)...)
		require.Equal(t, tc.code, got.code, "%s: %s", name, got.err)
		require.Contains(t, got.err, tc.want, name)
		require.Empty(t, got.out, name)
	}
}

func (w *fixture) print(name, replica, text string, at time.Time) {
	w.feed.Add(process.Line{Time: at, Namespace: "orders", Function: name, Replica: replica, Stream: "stdout", Text: text})
}

func TestLogsShowTheLinesOfOneFunction(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	now := time.Now()
	w.print("pricing", "pricing-1", "first", now.Add(-time.Hour))
	w.print("pricing", "pricing-2", "second", now)
	w.print("broken", "broken-1", "other", now)

	got := w.run(t, "logs", "pricing")
	require.Equal(t, 0, got.code, got.err)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, now.Add(-time.Hour).Local().Format(clock)+" pricing-1 first", lines[0])
	require.True(t, strings.HasSuffix(lines[1], " pricing-2 second"))

	require.NotContains(t, w.run(t, "logs", "pricing", "--tail", "1").out, "first")
	require.NotContains(t, w.run(t, "logs", "pricing", "--since", "10m").out, "first")
	require.Contains(t, w.run(t, "logs", "pricing", "-o", "json").out, `"replica":"pricing-2","stream":"stdout","text":"second"}`)

	got = w.run(t, "logs", "nobody")
	require.Equal(t, 3, got.code)
	require.Contains(t, got.err, "there is no Function nobody")
}

func TestFollowingLogsContinuesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	w.print("pricing", "pricing-1", "before", time.Now())
	l := w.live(t, "logs", "-f", "orders/pricing")
	l.next(t, "before")
	w.print("broken", "broken-1", "of another", time.Now())
	w.print("pricing", "pricing-2", "after", time.Now())
	require.Contains(t, l.next(t, ""), "pricing-2 after")
	require.Equal(t, ran{}, l.stop())
}

func TestFunctionsAreListed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	got := w.run(t, "functions")
	require.Equal(t, 0, got.code, got.err)
	want := "NAMESPACE   NAME      STATE     READY   BACKLOG   RUNTIME     URL                      LAST ERROR\n" +
		"orders      broken    failing   0/0     -         python312                            handler.py:3: no\n" +
		"orders      pricing   ready     1/1     3         nodejs22    http://127.0.0.1:00000\n"
	require.Equal(t, want, strings.ReplaceAll(got.out, portOf(w.pricing.Address()), "00000"))
	require.Equal(t, "orders/broken\norders/pricing\n", w.run(t, "functions", "-o", "name").out)
	require.Equal(t, "[]\n", w.run(t, "functions", "-n", "nowhere", "-o", "json").out)
	require.Contains(t, w.run(t, "functions", "-o", "yaml").out, "- backlog: 3\n")
	require.Contains(t, w.run(t, "functions", "-n", "nowhere").err, "there are no Functions in nowhere")
}

func portOf(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return port + strings.Repeat(" ", 0)
}
