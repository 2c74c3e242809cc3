package activator

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

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
