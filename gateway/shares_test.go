package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// from dials from an address of this machine.
func from(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
}

// transport speaks HTTP/2, from an address.
func (o *outside) transport(address string) *http.Transport {
	transport := &http.Transport{
		TLSClientConfig: o.client.Clone(), ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return from(address).DialContext(ctx, "tcp", o.options.Entrance.TLSAddress)
		},
	}
	o.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// trickle is a body of which a byte comes, and no more.
type trickle struct {
	sent bool
	done <-chan struct{}
}

// Read implements io.Reader.
func (b *trickle) Read(p []byte) (int, error) {
	if b.sent {
		<-b.done
		return 0, io.EOF
	}
	b.sent, p[0] = true, 'x'
	return 1, nil
}

// onLoopback are the pods of Services, each at the port of its own.
type onLoopback struct{}

// Watch implements activate.Endpoints.
func (onLoopback) Watch(ctx context.Context, _ types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	apply([]routing.Endpoint{{Address: addressOf(port), Ready: true}})
	<-ctx.Done()
	return nil
}

// The attacker has as many requests as the host: before, it took all of them.
func TestConnectionsOfHTTP2OfOneAddressLeaveAHostToOthers(t *testing.T) {
	t.Parallel()
	const connections, streams, requests = 4, 100, 200
	var running atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = io.WriteString(w, "served")
		}
	}))
	t.Cleanup(backend.Close)
	o := startOutside(t, func(_ *Deps, o *Options) { o.MaxConnections, o.Expose.RequestsPerAPIRule = 4*requests, requests })
	o.exposures <- []apirule.Exposure{exposed("shop.example.com", o.behind(backend), func(rule *v2.Rule) {
		rule.Methods = []v2.Method{"GET", "POST"}
	})}
	o.awaitStatus(o.options.MetricsAddress, "/readyz", http.StatusOK)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	for range connections {
		transport := o.transport("127.0.0.1")
		for range streams {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.example.com/", &trickle{done: ctx.Done()})
			require.NoError(t, err)
			go func() {
				if answer, err := transport.RoundTrip(request); err == nil {
					_ = answer.Body.Close()
				}
			}()
		}
	}
	require.Eventually(t, func() bool { return running.Load() >= requests/4 }, time.Minute, time.Millisecond) // some made room for others

	honest := o.transport("127.0.0.2")
	for range 2 * requests {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://shop.example.com/", http.NoBody)
		require.NoError(t, err)
		answer, err := honest.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
}

// ask sends a request to a port, from an address.
func (f *fixture) ask(port int32, address, path string) net.Conn {
	f.t.Helper()
	conn, err := from(address).DialContext(f.t.Context(), "tcp", net.JoinHostPort(loopback.Host, strconv.Itoa(int(port))))
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
	if err != nil {
		require.ErrorContains(f.t, err, "reset")
	}
	return conn
}

// Functions that do not start keep their callers, who are not slow.
func TestConnectionsToFunctionsThatDoNotStartAreShared(t *testing.T) {
	t.Parallel()
	const hostile, alike, shop = 0, 1, 2
	for name, tc := range map[string]struct {
		address  func(i int) string
		function func(i int) int
		most     int
	}{
		"by the Function":  {func(i int) string { return "127.0.1." + strconv.Itoa(i+1) }, func(int) int { return hostile }, 3},
		"by the namespace": {func(i int) string { return "127.0.1." + strconv.Itoa(i+1) }, func(i int) int { return []int{hostile, alike}[i%2] }, 4},
		"by the caller":    {func(int) string { return "127.0.1.1" }, func(i int) int { return []int{hostile, shop}[i%2] }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(o *Options) { o.MaxConnections, o.ConnectionsPerFunction = 8, 3 })
			var all []activation.Listing
			for _, each := range []types.NamespacedName{{Namespace: "hostile", Name: "a"}, {Namespace: "hostile", Name: "b"}, {Namespace: "shop", Name: "price"}} {
				all = append(all, activation.Listing{Function: each, UID: types.UID(each.String()), Port: int32(loopback.Reserve(t))})
			}
			f.listings <- all
			f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusOK)
			for i := range tc.most {
				f.ask(all[tc.function(i)].Port, tc.address(i), "/")
			}
			require.Eventually(t, func() bool {
				return strings.Contains(f.metrics(), fmt.Sprintf("rouse_gateway_requests_waiting %d\n", tc.most))
			}, time.Minute, 5*time.Millisecond)

			_, err := f.ask(all[tc.function(tc.most)].Port, tc.address(tc.most), "/").Read(make([]byte, 1))
			require.Error(t, err, "it is closed")
			require.Contains(t, f.metrics(), "rouse_gateway_connections_refused_total 1\n")
			answer, err := http.ReadResponse(bufio.NewReader(f.ask(all[shop].Port, "127.0.2.1", "/healthz")), nil)
			require.NoError(t, err, "others are answered")
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusOK, answer.StatusCode)
		})
	}
}
