package activator

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

var loadPrice = types.NamespacedName{Namespace: "shop", Name: "price"}

// stream returns a function that reads the next line about price.
func stream(t *testing.T, table *Table) func() activation.FunctionLoad {
	t.Helper()
	server := httptest.NewServer(table)
	t.Cleanup(server.Close)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	answer, err := loopback.Default.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewScanner(answer.Body)
	return func() activation.FunctionLoad {
		for lines.Scan() {
			loads, err := activation.DecodeGatewayLoads(lines.Bytes())
			require.NoError(t, err)
			if load, ok := loads[loadPrice]; ok {
				return load
			}
		}
		require.NoError(t, lines.Err())
		require.Fail(t, "the stream has ended")
		return activation.FunctionLoad{}
	}
}

func TestARequestCountsOnceFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	table := NewTable()
	request := table.Begin(loadPrice)
	require.Equal(t, map[types.NamespacedName]*activation.FunctionLoad{loadPrice: {Requests: 1, Waiting: 1}}, table.functions)
	request.Run()
	request.Run()
	require.Equal(t, &activation.FunctionLoad{Requests: 1, Running: 1}, table.functions[loadPrice])
	request.Wait() // its pod has refused it
	require.Equal(t, &activation.FunctionLoad{Requests: 1, Waiting: 1}, table.functions[loadPrice])
	request.Run()
	request.End()
	require.Equal(t, &activation.FunctionLoad{Requests: 1}, table.functions[loadPrice])
	waiting, running := table.Totals()
	require.Zero(t, waiting+running)
}

func TestAStreamBeginsWithAllAndGoesOnWithChanges(t *testing.T) {
	t.Parallel()
	table := NewTable()
	first := table.Begin(loadPrice)
	next := stream(t, table)
	require.Equal(t, activation.FunctionLoad{Requests: 1, Waiting: 1}, next())
	first.Run()
	require.Equal(t, activation.FunctionLoad{Requests: 1, Running: 1}, next())
	first.End()
	require.Equal(t, activation.FunctionLoad{Requests: 1}, next())
	table.Begin(loadPrice).End() // it is over before a line is due, and still moves the count
	require.Equal(t, uint64(2), next().Requests)
}

func TestASlowReaderGetsTheNewestCountsInOneEntry(t *testing.T) {
	t.Parallel()
	table := NewTable()
	watched := table.watch()
	for range 1000 {
		table.Begin(loadPrice).End()
	}
	require.Len(t, watched.changed, 1)
	require.Equal(t, map[string]activation.FunctionLoad{"shop/price": {Requests: 1000}}, table.take(watched).Functions)
	require.Empty(t, table.take(watched).Functions)
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	table := NewTable()
	for range mostStreams {
		require.NotNil(t, table.watch())
	}
	answer := httptest.NewRecorder()
	table.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/load", http.NoBody))
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
}

func TestRequestsThatAnnounceABodyTakeNoStream(t *testing.T) {
	t.Parallel()
	table := NewTable()
	server := httptest.NewServer(table)
	t.Cleanup(server.Close)
	for range mostStreams + 1 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn) // to the end of the connection
		require.NoError(t, err)
		require.Contains(t, string(answer), "HTTP/1.1 400 ")
		require.Contains(t, string(answer), daemon.ErrBody.Error())
	}
	table.Begin(price)
	require.Equal(t, uint64(1), stream(t, table)().Requests)
}

func TestATableIsIdleWhenItsLastRequestEnds(t *testing.T) {
	t.Parallel()
	table := NewTable()
	<-table.Idle()
	one, other := table.Begin(loadPrice), table.Begin(loadPrice)
	idle := table.Idle()
	one.End()
	select {
	case <-idle:
		require.Fail(t, "a request is left")
	default:
	}
	other.End()
	<-idle
}

func TestFunctionsThatAreGoneAreForgottenWithTheirLastRequest(t *testing.T) {
	t.Parallel()
	table := NewTable()
	request := table.Begin(loadPrice)
	none := func(types.NamespacedName) bool { return false }
	table.Keep(none)
	require.Contains(t, table.functions, loadPrice)
	request.End()
	table.Keep(func(types.NamespacedName) bool { return true })
	require.Contains(t, table.functions, loadPrice)
	table.Keep(none)
	require.Empty(t, table.functions)
}

func TestServerSentEventsComeOneByOne(t *testing.T) {
	t.Parallel()
	f := start(t)
	next := make(chan string)
	f.set(f.pod(true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for data := range next {
			_, _ = io.WriteString(w, "data: "+data+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	}))
	response, err := loopback.Default.Transport.RoundTrip(f.request(http.MethodGet, "/", ""))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReader(response.Body)
	for _, data := range []string{"one", "two"} {
		next <- data
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "data: "+data+"\n", line)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
	f.awaitLoad(0, 1) // it counts until it ends
	close(next)
	_, err = io.ReadAll(lines)
	require.NoError(t, err)
	f.awaitLoad(0, 0)
}

func TestBodiesFlowInBothDirectionsAtOnce(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(f.pod(true, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			_, _ = io.WriteString(w, strings.ToUpper(lines.Text())+"\n")
			_ = http.NewResponseController(w).Flush()
		}
	}))
	reader, writer := io.Pipe()
	r := f.request(http.MethodPost, "/", "")
	r.Body, r.ContentLength = reader, -1
	go func() { _, _ = io.WriteString(writer, "one\n") }()
	response, err := loopback.Default.Transport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReader(response.Body)
	for _, text := range []string{"one", "two", "three"} {
		if text != "one" {
			_, err = io.WriteString(writer, text+"\n")
			require.NoError(t, err)
		}
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, strings.ToUpper(text)+"\n", line)
	}
	require.NoError(t, writer.Close())
	_, err = io.ReadAll(lines)
	require.NoError(t, err)
	f.awaitLoad(0, 0)
}

func TestTrailersComeAfterTheBody(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(f.pod(true, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		_ = http.NewResponseController(w).Flush() // or the server counts the bytes and sends no trailer
		w.Header().Set(http.TrailerPrefix+"X-Sum", r.Trailer.Get("X-Sum"))
	}))
	r := f.request(http.MethodPost, "/", "order")
	r.ContentLength = -1
	r.Trailer = http.Header{"X-Sum": {"42"}}
	answer := f.do(r)
	require.Equal(t, "order", answer.text)
	require.Equal(t, "42", answer.Trailer.Get("X-Sum"))
}

func TestForgedHeadersInTrailersAndInterimAnswersAreTakenAway(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(f.pod(true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Rouse-Cold-Start", "1")
		w.Header().Set("Link", "a")
		w.WriteHeader(http.StatusEarlyHints)
		clear(w.Header())
		w.Header().Set("Trailer", "Rouse-Refused, X-Sum")
		_ = http.NewResponseController(w).Flush()
		for _, name := range []string{"Rouse-Refused", "X-Sum", http.TrailerPrefix + "Rouse-Late"} {
			w.Header().Set(name, "1")
		}
	}))
	early := make(chan textproto.MIMEHeader, 1)
	r := f.request(http.MethodGet, "/", "")
	answer := f.do(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
			early <- header
			return nil
		},
	})))
	require.Equal(t, textproto.MIMEHeader{"Link": {"a"}}, <-early)
	require.Equal(t, http.Header{"X-Sum": {"1"}}, answer.Trailer)
}

func TestAnUpgradedConnectionLastsAndCountsUntilItEnds(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(f.pod(true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.Copy(conn, both)
	}))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /echo HTTP/1.1\r\nHost: price\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	both := bufio.NewReader(conn)
	response, err := http.ReadResponse(both, nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	require.Equal(t, "echo", response.Header.Get("Upgrade"))
	for _, text := range []string{"one", "two"} {
		_, err = io.WriteString(conn, text)
		require.NoError(t, err)
		got := make([]byte, len(text))
		_, err = io.ReadFull(both, got)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		f.awaitLoad(0, 1)
	}
	require.NoError(t, conn.Close())
	f.awaitLoad(0, 0)
}
