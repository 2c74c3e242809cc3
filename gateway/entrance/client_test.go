package entrance

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/httplimit"
)

func TestAnIPv6NetworkHasOneShareAndAProxyHasNone(t *testing.T) {
	t.Parallel()
	trusted := proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for address, want := range map[string]httplimit.Key{
		"192.0.2.1": {Name: "192.0.2.1"}, "::ffff:192.0.2.1": {Name: "192.0.2.1"}, "2001:db8::1": {Name: "2001:db8::/64"},
		"10.1.2.3": {Name: "10.1.2.3", Unshared: true}, "fd00::1": {Name: "fd00::1", Unshared: true},
	} {
		require.Equal(t, want, trusted.keyOf(netip.MustParseAddr(address)))
	}
}

func TestARequestOfATrustedProxyCountsForTheClientThatItNames(t *testing.T) {
	t.Parallel()
	trusted, proxy := proxies{netip.MustParsePrefix("10.0.0.0/8")}, httplimit.Key{Name: "10.0.0.1", Unshared: true}
	for _, tc := range []struct {
		lines []string
		want  httplimit.Key
	}{
		{nil, proxy},
		{[]string{"192.0.2.1"}, httplimit.Key{Name: "192.0.2.1"}},
		{[]string{"198.51.100.7, 192.0.2.1"}, httplimit.Key{Name: "192.0.2.1"}}, // what is before is the client's own word
		{[]string{"198.51.100.7", "192.0.2.1 , 10.0.0.2"}, httplimit.Key{Name: "192.0.2.1"}},
		{[]string{"192.0.2.1", "10.0.0.2"}, httplimit.Key{Name: "192.0.2.1"}},
		{[]string{"2001:db8::1"}, httplimit.Key{Name: "2001:db8::/64"}},
		{[]string{"192.0.2.1, unknown"}, proxy},
		{[]string{"10.0.0.3"}, proxy},
	} {
		require.Equal(t, tc.want, trusted.clientOf(http.Header{"X-Forwarded-For": tc.lines}, proxy), tc.lines)
	}
}

func TestAFurtherConnectionOfAnAddressTakesThePlaceOfItsSlowest(t *testing.T) {
	t.Parallel()
	f := start(t, protocol, func(o *Options) { o.MaxConnections = 2 })
	held := f.dial()
	_, err := io.WriteString(held, "GET / HTTP/1.1\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		answer, err := f.transport(false).RoundTrip(f.request("http", "/"))
		return err == nil && answer.Body.Close() == nil
	}, time.Minute, time.Millisecond)
	_, err = io.Copy(io.Discard, held)
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
	require.Positive(t, testutil.ToFloat64(f.entrance.metrics.evicted.WithLabelValues(whatConnection)))
}

func TestRequestsOfHTTP2AreBoundedBeyondTheirConnection(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/connect" {
			<-release
		}
		protocol(w, r)
	}, func(o *Options) { o.MaxConnections = 6 })
	transport := f.transport(true)
	answer, err := transport.RoundTrip(f.request("https", "/connect"))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	idle := func() bool { return f.entrance.requests.Held() == 0 }
	require.Eventually(t, idle, time.Minute, time.Millisecond, "an answer may be there before its request counts no more")
	answers := make(chan *http.Response, 4)
	for range 4 {
		request := f.request("https", "/")
		go func() {
			answer, err := transport.RoundTrip(request)
			if err == nil {
				_ = answer.Body.Close()
			}
			answers <- answer
		}()
	}
	refused := <-answers
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode, "an address has half of the requests, too")
	require.Equal(t, activation.RefusedOverload, refused.Header.Get(activation.HeaderRefused))
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	close(release)
	for range 3 {
		require.Equal(t, http.StatusOK, (<-answers).StatusCode)
	}
	require.Eventually(t, idle, time.Minute, time.Millisecond)
}

// slowStreams sends a byte of a body and no more, on a stream of its own.
func slowStreams(f *fixture, count int) {
	f.t.Helper()
	conn := f.dialTLS("h2")
	sent := preface()
	for i := range count {
		stream := uint32(2*i + 1)
		sent = append(sent, frame(0x1, 0x4, stream, []byte{0x83, 0x87, 0x84, 0x41, 1, 'h'})...) // POST
		sent = append(sent, frame(0x0, 0, stream, []byte("x"))...)
	}
	_, err := conn.Write(sent)
	require.NoError(f.t, err)
	go func() { _, _ = io.Copy(io.Discard, conn) }()
}

func TestSlowRequestsMakeRoomForOthersOfTheirAddress(t *testing.T) {
	t.Parallel()
	for name, proxies := range map[string][]netip.Prefix{
		"an address with its share": nil, "a trusted proxy with all places": {netip.MustParsePrefix("127.0.0.0/8")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					protocol(w, r)
				}
			}, func(o *Options) { o.MaxConnections, o.TrustedProxies = 40, proxies })
			places := 20
			if proxies != nil {
				places = 40
			}
			slowStreams(f, places)
			require.Eventually(t, func() bool { return f.entrance.requests.Held() == places }, time.Minute, time.Millisecond)
			transport := f.transport(true)
			for range 2 * places {
				require.Eventually(t, func() bool { // they are slow after a while
					answer, err := transport.RoundTrip(f.request("https", "/"))
					return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
				}, time.Minute, time.Millisecond)
			}
			require.Positive(t, testutil.ToFloat64(f.entrance.metrics.evicted.WithLabelValues(whatRequest)))
		})
	}
}

func TestAClientThatReadsNothingMakesRoomForAnother(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(f *fixture) net.Conn{
		"HTTP": func(f *fixture) net.Conn {
			conn := f.dial()
			_, err := io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
			require.NoError(f.t, err)
			return conn
		},
		"HTTP/2": func(f *fixture) net.Conn {
			conn := f.dialTLS("h2")
			_, err := conn.Write(append(preface(), frame(0x1, 0x5, 1, append([]byte{0x82, 0x87, 0x04, 6}, "/large\x41\x01h"...))...))
			require.NoError(f.t, err)
			return conn
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := make(chan error, 1)
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				var err error
				for r.URL.Path == "/large" && err == nil {
					_, err = io.WriteString(w, strings.Repeat("x", 64<<10))
				}
				if err != nil {
					failed <- err
				}
			}, func(o *Options) { o.MaxConnections, o.ReadTimeout = 2, time.Hour })
			slow := begin(f)
			require.Eventually(t, func() bool { return f.entrance.requests.Held() == 1 }, time.Minute, time.Millisecond)
			transport := f.transport(false)
			require.Eventually(t, func() bool {
				answer, err := transport.RoundTrip(f.request("https", "/"))
				return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
			}, time.Minute, 10*time.Millisecond)
			require.Error(t, <-failed)
			require.NoError(t, slow.Close())
		})
	}
}
