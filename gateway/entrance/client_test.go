package entrance

import (
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/activation"
)

func TestAnAddressHasHalfOfAllConnectionsAndAProxyHasNoShare(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddr
	c := newClients(4, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	first := c.connect(address("192.0.2.1"))
	require.NotNil(t, first)
	require.Same(t, first, c.connect(address("::ffff:192.0.2.1")))
	require.Nil(t, c.connect(address("192.0.2.1")))
	require.NotNil(t, c.connect(address("192.0.2.2")))

	c.disconnect(first)
	require.Same(t, first, c.connect(address("192.0.2.1")))
	for range 10 {
		require.NotNil(t, c.connect(address("10.1.2.3")))
	}

	require.NotNil(t, c.connect(address("2001:db8::1")))
	require.NotNil(t, c.connect(address("2001:db8::2")))
	require.Nil(t, c.connect(address("2001:db8::3")), "a network of IPv6 is one address")
	require.NotNil(t, c.connect(address("2001:db8:0:1::1")))
}

func TestAddressesWithoutConnectionsAreForgotten(t *testing.T) {
	t.Parallel()
	c := newClients(4, nil)
	found := c.connect(netip.MustParseAddr("192.0.2.1"))
	c.disconnect(found)
	require.Empty(t, c.open)
}

func TestConnectionsOverTheShareOfAnAddressAreClosed(t *testing.T) {
	t.Parallel()
	f := start(t, protocol, func(o *Options) { o.MaxConnections = 2 })
	held := f.dial()
	_, err := io.WriteString(held, "GET / HTTP/1.1\r\n")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, f.dial())
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
	refused := f.entrance.metrics.refused.WithLabelValues(refusedConnection)
	require.Eventually(t, func() bool { return testutil.ToFloat64(refused) >= 1 }, time.Minute, time.Millisecond)
	require.NoError(t, held.Close())
	require.Eventually(t, func() bool {
		answer, err := f.transport(false).RoundTrip(f.request("http", "/"))
		return err == nil && answer.Body.Close() == nil
	}, time.Minute, time.Millisecond)
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
	idle := func() bool { return f.entrance.clients.running.Load() == 0 }
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

func TestAProxyMayHaveAllRequestsButNotMore(t *testing.T) {
	t.Parallel()
	c := newClients(4, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	proxy, stranger := c.connect(netip.MustParseAddr("10.0.0.1")), c.connect(netip.MustParseAddr("192.0.2.1"))
	for range 3 {
		require.True(t, c.begin(proxy))
	}
	require.True(t, c.begin(stranger))
	require.False(t, c.begin(proxy))
	c.end(stranger)
	require.True(t, c.begin(proxy))
}
