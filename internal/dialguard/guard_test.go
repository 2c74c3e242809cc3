package dialguard

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGuardAllowsNoAddressOfThisMachineItsLinkOrItsCloud(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"140.82.121.4": true, "10.96.0.10": true, "192.168.1.1": true, "172.16.0.1": true, "100.64.0.1": true,
		"fd12::1": true, "2606:50c0::1": true, "::ffff:10.0.0.1": true,
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false,
		"169.254.169.254": false, "169.254.170.2": false, "fe80::1": false, "fe80::1%eth0": false,
		"224.0.0.1": false, "ff02::1": false, "255.255.255.255": false, "240.0.0.1": false,
		"100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false,
		"fd00:ec2::254": false, "fd00:ec2::23": false, "fd20:ce::254": false, "fd00:c1::a9fe:a9fe": false,

		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::127.0.0.1": false, // IPv4 within IPv6
		"::ffff:0:169.254.169.254": false, "::ffff:0:10.0.0.1": true,
		"64:ff9b::8c52:7904": true, "64:ff9b::a9fe:a9fe": false, "64:ff9b::7f00:1": false, "64:ff9b:1::a9fe:a9fe": false,
		"2002:a9fe:a9fe::1": false, "2002:8c52:7904::1": true, "2001:0:1::1": false,
	} {
		require.Equal(t, want, Guard{}.Allows(netip.MustParseAddr(address)), address)
	}
	require.False(t, Guard{}.Allows(netip.Addr{}))
}

func TestGuardRefusesNetworksThatTheOperatorDenies(t *testing.T) {
	t.Parallel()
	denied, err := ParseDenied([]string{"10.96.0.0/12", "fd12::/16"})
	require.NoError(t, err)
	guard := Guard{Denied: denied}
	for address, want := range map[string]bool{
		"10.96.0.1": false, "10.111.1.1": false, "10.112.0.1": true, "fd12::1": false, "fd13::1": true,
		"::ffff:10.96.0.1": false, "64:ff9b::10.96.0.1": false, "2002:a60:1::1": false,
	} {
		require.Equal(t, want, guard.Allows(netip.MustParseAddr(address)), address)
	}
}

func TestParseDeniedDescribesTheFormatOfNetworks(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"10.0.0.1": "10.0.0.1/32", "": "10.0.0.0/8", "example.org": "10.0.0.0/8", "::ffff:10.0.0.0/104": "write it as IPv4",
	} {
		_, err := ParseDenied([]string{text})
		require.ErrorContains(t, err, says)
	}
	masked, err := ParseDenied([]string{"10.1.2.3/8"})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.0/8", masked[0].String())
}

// counted starts a server with a handler and counts its connections.
func counted(t *testing.T, address string, handler http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var connections atomic.Int64
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server, &connections
}

func get(t *testing.T, transport *Transport, address string) error {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.Body.Close()
}

func portOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	return at.Port()
}

func TestTransportDialsNoDeniedAddressByAnyName(t *testing.T) {
	t.Parallel()
	server, connections := counted(t, "127.0.0.1:0", func(http.ResponseWriter, *http.Request) {})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1"} {
		err := get(t, Guard{}.Transport(&http.Transport{}, time.Second), "http://"+host+":"+portOf(t, server)+"/")
		require.Error(t, err, host)
	}
	require.Zero(t, connections.Load())
	require.NoError(t, get(t, Guard{AllowLoopback: true}.Transport(&http.Transport{}, time.Minute), server.URL))
}

func TestTransportFollowsNoRedirectToADeniedAddress(t *testing.T) {
	t.Parallel()
	target, connections := counted(t, "127.0.0.2:0", func(http.ResponseWriter, *http.Request) {})
	server, _ := counted(t, "127.0.0.1:0", func(w http.ResponseWriter, request *http.Request) {
		http.Redirect(w, request, target.URL, http.StatusFound)
	})
	guard := Guard{AllowLoopback: true, Denied: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}
	require.ErrorIs(t, get(t, guard.Transport(&http.Transport{}, time.Minute), server.URL), ErrDenied)
	require.Zero(t, connections.Load())
}

func TestProxyMayHaveAnyAddressButGetsNoRequestForADeniedOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		url   string
		asked int64
		want  error
	}{
		"a host that only the proxy can resolve": {"http://git.invalid/", 1, nil},
		"a redirect":                             {"http://git.invalid/moved", 1, ErrDenied},
		"an address of a cloud":                  {"http://169.254.169.254/", 0, ErrDenied},
		"the same over TLS":                      {"https://169.254.169.254/", 0, ErrDenied},
		"this machine by its name":               {"http://localhost/", 0, ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			proxy, _ := counted(t, "127.0.0.1:0", func(w http.ResponseWriter, request *http.Request) {
				asked.Add(1)
				if request.URL.Path == "/moved" {
					http.Redirect(w, request, "http://169.254.169.254/latest", http.StatusFound)
				}
			})
			at, err := url.Parse(proxy.URL)
			require.NoError(t, err)
			err = get(t, Guard{}.Transport(&http.Transport{Proxy: http.ProxyURL(at)}, time.Minute), tc.url)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, tc.asked, asked.Load())
		})
	}
}
