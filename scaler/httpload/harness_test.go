package httpload

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout bounds what a test waits for.
const timeout = time.Minute

var service = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}

// gatewayServer streams the lines that a test sends, as a gateway does.
type gatewayServer struct {
	*httptest.Server

	lines   chan string
	breaks  chan struct{} // ends a stream
	streams chan struct{} // has one entry for each stream that was opened
}

// startGateway serves until the test ends. Each stream begins with the lines that are given.
func startGateway(t *testing.T, first ...string) *gatewayServer {
	t.Helper()
	s := &gatewayServer{lines: make(chan string), breaks: make(chan struct{}), streams: make(chan struct{}, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/load" {
			http.NotFound(w, r)
			return
		}
		s.streams <- struct{}{}
		write := func(text string) {
			_, _ = w.Write([]byte(text))
			_ = http.NewResponseController(w).Flush()
		}
		for _, line := range first {
			write(line + "\n")
		}
		for {
			select {
			case line := <-s.lines:
				write(line)
			case <-s.breaks:
				return
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *gatewayServer) endpoint() routing.Endpoint {
	return routing.Endpoint{Address: strings.TrimPrefix(s.URL, "http://"), Ready: true}
}

// send writes a line to the stream that is open.
func (s *gatewayServer) send(t *testing.T, line string) {
	t.Helper()
	select {
	case s.lines <- line + "\n":
	case <-time.After(timeout):
		require.FailNow(t, "no stream is open")
	}
}

// fakeEndpoints hands on what a test posts.
type fakeEndpoints struct {
	posted chan []routing.Endpoint
	asked  chan int32
}

func (e *fakeEndpoints) Watch(ctx context.Context, name types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	if name == service {
		e.asked <- port
	}
	for {
		select {
		case endpoints := <-e.posted:
			apply(endpoints)
		case <-ctx.Done():
			return nil
		}
	}
}

type fixture struct {
	*Gateways

	t         *testing.T
	endpoints *fakeEndpoints
}

// follow runs Gateways until the test ends. Streams that are silent end soon, as far as the test wants.
func follow(t *testing.T, silence time.Duration, change ...func(*Gateways)) *fixture {
	t.Helper()
	f := &fixture{t: t, endpoints: &fakeEndpoints{posted: make(chan []routing.Endpoint), asked: make(chan int32, 1)}}
	f.Gateways = NewGateways(f.endpoints, GatewaysOptions{Service: service, AllowLoopback: true}, logr.Discard())
	f.silence = silence
	for _, c := range change {
		c(f.Gateways)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	require.Equal(t, int32(9091), <-f.endpoints.asked)
	return f
}

func (f *fixture) list(endpoints ...routing.Endpoint) { f.endpoints.posted <- endpoints }

func (f *fixture) eventually(holds func() bool, reason string) {
	f.t.Helper()
	require.Eventually(f.t, holds, timeout, time.Millisecond, reason)
}

// eventuallyLoad waits until the load is known and as wanted.
func (f *fixture) eventuallyLoad(function types.NamespacedName, want activation.FunctionLoad) {
	f.t.Helper()
	f.eventually(func() bool {
		load, err := f.Load(function)
		return err == nil && load == want
	}, "the load is not as wanted")
}
