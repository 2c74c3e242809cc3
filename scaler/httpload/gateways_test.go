package httpload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	nothing = `{"functions":{}}`
	waits   = `{"functions":{"shop/price":{"requests":12,"waiting":3,"running":4}}}`
)

func TestAGatewayThatTurnsReadyIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	var started atomic.Bool
	asked := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !started.Load() {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			asked <- struct{}{}
			return
		}
		_, _ = io.WriteString(w, waits+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	f := follow(t, timeout, func(g *Gateways) { g.backoff = wait.Backoff{Duration: time.Hour} })
	endpoint := routing.Endpoint{Address: server.Listener.Addr().String()}
	f.list(endpoint)
	<-asked
	started.Store(true)
	endpoint.Ready = true
	f.list(endpoint)
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 12, Waiting: 3, Running: 4})
}

func TestLoadIsTheSumOverTheGateways(t *testing.T) {
	t.Parallel()
	one, two := startGateway(t, waits), startGateway(t, waits)
	f := follow(t, timeout)
	f.list(one.endpoint(), two.endpoint())
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 24, Waiting: 6, Running: 8})
	f.eventuallyLoad(order, activation.FunctionLoad{})
	require.Equal(t, 2, f.Connected())

	one.send(t, `{"functions":{"shop/price":{"requests":12},"shop/order":{"requests":1,"waiting":1}}}`)
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 24, Waiting: 3, Running: 4})
	f.eventuallyLoad(order, activation.FunctionLoad{Requests: 1, Waiting: 1})
}

func TestARequestIsPassedOnAsSoonAsItsGatewayReportsIt(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t, nothing)
	f := follow(t, timeout)
	called := make(chan types.NamespacedName, 10)
	stop := f.OnRequest(price, func() { called <- price })
	defer f.OnRequest(order, func() { called <- order })()
	f.list(gateway.endpoint())
	f.eventuallyLoad(price, activation.FunctionLoad{})

	gateway.send(t, waits)
	require.Equal(t, price, <-called)
	gateway.send(t, `{"functions":{"shop/price":{"requests":12}}}`)
	gateway.send(t, `{"functions":{"shop/order":{"requests":1}}}`)
	require.Equal(t, order, <-called, "the end of a request is none")

	stop()
	stop()
	gateway.send(t, `{"functions":{"shop/price":{"requests":13}}}`)
	gateway.send(t, `{"functions":{"shop/order":{"requests":2}}}`)
	require.Equal(t, order, <-called)
	require.Len(t, f.watchers, 1)
}

func TestARequestBetweenTwoStreamsIsNoticed(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t, `{"functions":{"shop/price":{"requests":1}}}`)
	f := follow(t, timeout)
	called := make(chan struct{}, 10)
	defer f.OnRequest(price, func() { called <- struct{}{} })()
	f.list(gateway.endpoint())
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 1})
	gateway.send(t, waits) // the next stream says 1, as after a restart
	<-called
	gateway.breaks <- struct{}{}
	<-called
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 1})
}

func TestWithoutTheStreamOfAReadyGatewayTheLoadIsUnknown(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t, waits)
	f := follow(t, timeout)
	_, err := f.Load(price)
	require.ErrorIs(t, err, ErrUnknown, "the gateways are not known")

	f.list()
	f.eventuallyLoad(price, activation.FunctionLoad{})

	dead := routing.Endpoint{Address: "127.0.0.1:1", Ready: true}
	f.list(gateway.endpoint(), dead)
	f.eventually(func() bool {
		load, err := f.Load(price)
		return load.Waiting == 3 && errors.Is(err, ErrUnknown)
	}, "what is known is said")
	_, err = f.Load(price)
	require.ErrorContains(t, err, "there is no stream to 127.0.0.1:1")

	dead.Terminating = true
	f.list(gateway.endpoint(), dead)
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 12, Waiting: 3, Running: 4})
	dead.Ready, dead.Terminating = false, false
	f.list(gateway.endpoint(), dead)
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 12, Waiting: 3, Running: 4})
}

func TestAGatewayThatLeavesCountsWhileItsStreamLives(t *testing.T) {
	t.Parallel()
	leaving := func(e routing.Endpoint) []routing.Endpoint {
		e.Ready, e.Terminating = false, true
		return []routing.Endpoint{e}
	}
	for name, list := range map[string]func(routing.Endpoint) []routing.Endpoint{
		"it terminates":            leaving,
		"it is not listed anymore": func(routing.Endpoint) []routing.Endpoint { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gateway := startGateway(t, waits)
			f := follow(t, timeout)
			f.list(gateway.endpoint())
			f.eventuallyLoad(price, activation.FunctionLoad{Requests: 12, Waiting: 3, Running: 4})
			f.list(list(gateway.endpoint())...)
			gateway.send(t, `{"functions":{"shop/price":{"requests":12,"waiting":1}}}`)
			f.eventuallyLoad(price, activation.FunctionLoad{Requests: 12, Waiting: 1})

			gateway.Listener.Close() //nolint:errcheck // the test ends it only so that no further stream opens
			gateway.CloseClientConnections()
			f.eventuallyLoad(price, activation.FunctionLoad{})
			require.Zero(t, f.Connected())
		})
	}
}

func TestAGatewayThatIsNotListedIsForgotten(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t, waits)
	f := follow(t, timeout)
	f.list(gateway.endpoint())
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 12, Waiting: 3, Running: 4})
	f.list()
	gateway.breaks <- struct{}{}
	f.eventually(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.gateways) == 0
	}, "it is kept")

	f.list(gateway.endpoint())
	f.eventuallyLoad(price, activation.FunctionLoad{Requests: 12, Waiting: 3, Running: 4})
}

func TestAGatewayThatStallsIsUnknown(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"it is silent": "", "it sends a line that has no end": " "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gateway := startGateway(t, waits)
			f := follow(t, 200*time.Millisecond)
			f.list(gateway.endpoint())
			<-gateway.streams
			f.eventually(func() bool { return f.Connected() == 1 }, "there is no stream")
			f.eventually(func() bool {
				select {
				case gateway.lines <- text:
				default:
				}
				_, err := f.Load(price)
				return f.Connected() == 0 && errors.Is(err, ErrUnknown)
			}, "it counts")
			<-gateway.streams // it is tried again
		})
	}
}

func TestStreamsThatAreNoneAreEndedAndTriedAgain(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"nonsense":                         "load",
		"no Function":                      `{"functions":{"price":{"waiting":1}}}`,
		"a line that is longer than 4 MiB": `{"functions":{}` + strings.Repeat(" ", mostLine) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gateway := startGateway(t, first)
			f := follow(t, timeout)
			f.list(gateway.endpoint())
			for range 3 {
				<-gateway.streams
				_, err := f.Load(price)
				require.ErrorIs(t, err, ErrUnknown)
			}
		})
	}
}

func TestAGatewayLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	elsewhere := startGateway(t, waits)
	asked := make(chan struct{}, 100)
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		http.Redirect(w, r, elsewhere.URL+"/load", http.StatusFound)
	}))
	t.Cleanup(redirecting.Close)
	f := follow(t, timeout)
	f.list(routing.Endpoint{Address: strings.TrimPrefix(redirecting.URL, "http://"), Ready: true})
	for range 3 {
		<-asked
	}
	require.Zero(t, f.Connected())
	require.Empty(t, elsewhere.streams)
}

func TestForgedAddressesOfGatewaysAreNotDialled(t *testing.T) {
	t.Parallel()
	server := startGateway(t, waits)
	strict := NewGateways(nil, GatewaysOptions{Service: service}, logr.Discard())
	for _, address := range []string{server.endpoint().Address, "169.254.169.254:80", "[fd00:ec2::254]:80"} {
		err := strict.stream(t.Context(), &gateway{address: address})
		require.ErrorIs(t, err, dialguard.ErrDenied, address)
	}
	require.Empty(t, server.streams)
}

func TestGatewaysAreBounded(t *testing.T) {
	t.Parallel()
	f := follow(t, timeout)
	f.list(make([]routing.Endpoint, mostGateways+1)...)
	f.eventually(func() bool {
		_, err := f.Load(price)
		return err != nil && strings.Contains(err.Error(), "more than 256 endpoints")
	}, "")
}

func TestWithoutAServiceThereAreNoGateways(t *testing.T) {
	t.Parallel()
	none := NewGateways(nil, GatewaysOptions{}, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- none.Run(ctx) }()
	load, err := none.Load(price)
	require.NoError(t, err)
	require.Zero(t, load)
	cancel()
	require.NoError(t, <-done)
}

type brokenEndpoints struct{ watched chan struct{} }

func (e brokenEndpoints) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	apply(nil)
	select {
	case e.watched <- struct{}{}:
	case <-ctx.Done():
	}
	return errors.New("no permission")
}

func TestGatewaysThatCannotBeWatchedAreUnknown(t *testing.T) {
	t.Parallel()
	broken := NewGateways(brokenEndpoints{watched: make(chan struct{})}, GatewaysOptions{Service: service}, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- broken.Run(ctx) }()
	for range 2 { // it is tried again
		<-broken.endpoints.(brokenEndpoints).watched
		require.Eventually(t, func() bool {
			_, err := broken.Load(price)
			return errors.Is(err, ErrUnknown)
		}, timeout, time.Millisecond)
	}
	cancel()
	require.NoError(t, <-done)
}
