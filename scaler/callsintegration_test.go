package scaler

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
	"github.com/rouse-run/rouse/scaler/httpload"
)

var gatewayService = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}

// servers are endpoints of Services by name, at servers of the test.
type servers struct {
	board[map[types.NamespacedName]string]
}

func (s *servers) Watch(ctx context.Context, service types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	return s.watch(ctx, func(addresses map[types.NamespacedName]string) {
		if address, ok := addresses[service]; ok {
			apply([]routing.Endpoint{{Address: address, Ready: true, Function: true}})
			return
		}
		apply(nil)
	})
}

func serveHTTP(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestRequestsOfRealGatewaysAndPodsWakeAndScale(t *testing.T) {
	t.Parallel()
	lines := make(chan string)
	var line atomic.Value
	line.Store(`{"functions":{}}`)
	gateway := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			_, _ = io.WriteString(w, line.Load().(string)+"\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case changed := <-lines:
				line.Store(changed)
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
		}
	})
	var running atomic.Value
	running.Store(`{"requests":4,"running":3,"viaGateway":2}`)
	pod := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != activation.LoadPath {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, running.Load().(string))
	})

	r := newRig(t)
	endpoints := &servers{}
	endpoints.post(map[types.NamespacedName]string{gatewayService: gateway})
	asking := httpload.NewPods(httpload.PodsOptions{AllowLoopback: true})
	r.http.Gateways = httpload.NewGateways(endpoints, httpload.GatewaysOptions{Service: gatewayService, AllowLoopback: true}, logr.Discard())
	r.http.Pods = asking
	t.Cleanup(asking.Close)
	r.located = endpoints
	r.routes.post(nil)
	var err error
	r.conn, err = grpc.NewClient(r.serveTCP(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close() })
	r.client = newClient(r.conn)
	eventually := func(holds func() bool, reason string) {
		t.Helper()
		require.Eventually(t, holds, timeout, 10*time.Millisecond, reason)
	}
	eventually(func() bool { return r.http.Gateways.Connected() == 1 }, "the gateway's stream")

	object := kedatest.New(r.conn, kedatest.Options{
		Namespace: shop, Name: "order", PollingInterval: 300 * time.Second,
		Metadata: map[string]string{"function": "order", "httpConcurrency": "50"},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = object.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	eventually(func() bool { ended, _, _ := object.Polls(); return ended > 0 }, "the first poll")
	require.Zero(t, object.Replicas())

	lines <- `{"functions":{"shop/order":{"requests":1,"waiting":1}}}`
	eventually(func() bool { return object.Replicas() == 1 }, "the wake")
	require.Equal(t, kedatest.Push, object.Transitions()[0].Reason)

	endpoints.post(map[types.NamespacedName]string{gatewayService: gateway, orderFunction: pod})
	lines <- `{"functions":{"shop/order":{"requests":1,"running":1}}}`
	eventually(func() bool { calls, err := r.calls(); return err == nil && calls == 3 },
		"one at the gateway, one of the pod's own, and one that is forged")
	running.Store("nonsense")
	eventually(func() bool { _, err := r.calls(); return err != nil }, "the pod answers nonsense")
}
