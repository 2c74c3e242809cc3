package entrance

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// headersOf are those that a handler gets, one on a line.
func headersOf(w http.ResponseWriter, r *http.Request) {
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		_, _ = fmt.Fprintf(w, "%s: %s\n", name, strings.Join(r.Header[name], " | "))
	}
}

// said is everything that a client could say about where a request came from, and about Rouse's own.
const said = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example.com\r\n" +
	"X-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /evil\r\nForwarded: for=192.0.2.1\r\nX-Real-Ip: 192.0.2.1\r\n" +
	"X_Forwarded_For: 192.0.2.2\r\nX-Forwarded_Host: worse.example.com\r\n" +
	"Rouse-Via: gateway\r\nrouse-via: eventbridge\r\nROUSE_VIA: gateway\r\nRouse-Anything: x\r\nRoused: stays\r\nX-Forward: stays\r\n"

func (f *fixture) exchange(sent string) string {
	f.t.Helper()
	conn := f.dial()
	_, err := io.WriteString(conn, sent)
	require.NoError(f.t, err)
	text, err := io.ReadAll(conn)
	require.NoError(f.t, err)
	_, body, _ := strings.Cut(string(text), "\r\n\r\n")
	return body
}

func TestWhatAStrangerSaysAboutItsWayIsNotBelieved(t *testing.T) {
	t.Parallel()
	f := start(t, headersOf)
	got := f.exchange("GET / HTTP/1.0\r\nHost: h\r\n" + said + "\r\n")
	require.Equal(t, "Roused: stays\nX-Forward: stays\nX-Forwarded-Proto: http\n", got)
}

func TestATrustedProxyIsBelievedButForRousesOwnHeaders(t *testing.T) {
	t.Parallel()
	f := start(t, headersOf, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	got := f.exchange("GET / HTTP/1.0\r\nHost: h\r\n" + said + "\r\n")
	require.Equal(t, "Forwarded: for=192.0.2.1\nRoused: stays\nX-Forward: stays\nX-Forwarded-For: 192.0.2.1\n"+
		"X-Forwarded-Host: evil.example.com\nX-Forwarded-Port: 1\nX-Forwarded-Prefix: /evil\nX-Forwarded-Proto: https\nX-Real-Ip: 192.0.2.1\n", got)
}

func TestTheSchemeIsThatOfTheListenerOrOfATrustedProxy(t *testing.T) {
	t.Parallel()
	trust := func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	for _, tc := range []struct {
		scheme, says, want string
		change             []func(*Options)
	}{
		{"http", "", "http", nil},
		{"https", "", "https", nil},
		{"http", "https", "http", nil},
		{"https", "http", "https", nil},
		{"http", "https", "https", []func(*Options){trust}},
		{"http", "gopher", "http", []func(*Options){trust}},
	} {
		f := start(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get(forwardedProto)) }, tc.change...)
		for _, http2 := range []bool{false, true} {
			request := f.request(tc.scheme, "/")
			if tc.says != "" {
				request.Header.Set(forwardedProto, tc.says)
			}
			require.Equal(t, tc.want, f.text(request, http2), "%+v", tc)
		}
	}
}

func TestNothingButWebSocketsIsUpgradedTo(t *testing.T) {
	t.Parallel()
	f := start(t, headersOf)
	const settings = "HTTP2-Settings: AAMAAABkAAQAAP__\r\n"
	for name, tc := range map[string]struct{ sent, want string }{
		"h2c":               {"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" + settings, ""},
		"h2c and WebSocket": {"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n" + settings, ""},
		"twice":             {"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", ""},
		"WebSocket":         {"Connection: Upgrade\r\nUpgrade: WebSocket\r\n", "WebSocket"},
	} {
		got := f.exchange("GET / HTTP/1.1\r\nHost: h\r\n" + strings.Replace(tc.sent, "Connection: ", "Connection: close, ", 1) + "\r\n")
		require.NotContains(t, got, "Http2-Settings", name)
		if tc.want == "" {
			require.NotContains(t, got, "\nUpgrade:", name)
		} else {
			require.Contains(t, got, "Upgrade: "+tc.want+"\n", name)
		}
	}
}
