package activator

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

// network leads addresses of gateways to servers of the test.
type network struct {
	mu    sync.Mutex
	hosts map[string]string
}

func newNetwork() *network { return &network{hosts: map[string]string{}} }

// serve has a gateway of this address answer, on all ports. The returned function ends it.
func (n *network) serve(t *testing.T, address string, handler http.HandlerFunc) (stop func()) {
	t.Helper()
	server := httptest.NewServer(handler)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[address] = server.Listener.Addr().String()
	stop = sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.hosts, address)
		server.CloseClientConnections()
		server.Close()
	})
	t.Cleanup(stop)
	return stop
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	to, ok := n.hosts[host]
	n.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("connect to %s: no route to host", address)
	}
	return (&net.Dialer{}).DialContext(ctx, kind, to)
}

func TestAnActivatorSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	reachable := newNetwork()
	reachable.serve(t, "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(activation.HeaderFunction, "uid of "+r.Method+" "+r.Host+r.URL.Path)
	})
	reachable.serve(t, "fd00::1", func(w http.ResponseWriter, r *http.Request) { w.Header().Set(activation.HeaderFunction, r.Host) })
	asked := newCaller(reachable.dial)
	function, err := asked.FunctionAt(t.Context(), "10.0.0.1", 12345)
	require.NoError(t, err)
	require.Equal(t, types.UID("uid of GET 10.0.0.1:12345/healthz"), function)
	function, err = asked.FunctionAt(t.Context(), "fd00::1", 12345)
	require.NoError(t, err)
	require.Equal(t, types.UID("[fd00::1]:12345"), function)
	require.NoError(t, asked.Works(t.Context(), "10.0.0.1"))
	require.Error(t, asked.Works(t.Context(), "10.0.0.2"))
}

func TestAnActivatorThatDoesNotAnswerAsItShouldIsNone(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, handler := range map[string]http.HandlerFunc{
		"with another status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"with a redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(activation.HeaderFunction, "uid")
			w.Header().Set("Location", "http://10.0.0.1:12345/elsewhere")
			w.WriteHeader(http.StatusFound)
		},
		"never":                  func(_ http.ResponseWriter, r *http.Request) { awaitEnd(r, release) },
		"with an endless header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 2*maxHeader)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reachable := newNetwork()
			reachable.serve(t, "10.0.0.1", handler)
			function, err := newCaller(reachable.dial).FunctionAt(t.Context(), "10.0.0.1", 12345)
			require.Error(t, err)
			require.Empty(t, function)
		})
	}
}

func TestTheBodyOfAnAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	reachable, gone := newNetwork(), make(chan struct{})
	reachable.serve(t, "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		w.Header().Set(activation.HeaderFunction, "uid")
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	function, err := newCaller(reachable.dial).FunctionAt(t.Context(), "10.0.0.1", 12345)
	require.NoError(t, err)
	require.Equal(t, types.UID("uid"), function)
	await(t, gone) // the connection is not kept
}

// awaitEnd holds a request until its client or the test ends.
func awaitEnd(r *http.Request, release <-chan struct{}) {
	select {
	case <-r.Context().Done():
	case <-release:
	}
}
