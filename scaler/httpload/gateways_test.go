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
	require.ErrorContains(t, err, "no load stream to gateway 127.0.0.1:1")

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

const (
	first  = "10.0.0.1:8080"
	second = "10.0.0.2:8080"
)

type pods = map[string]activation.PodLoad

func gateways(waiting, running uint64) activation.FunctionLoad {
	return activation.FunctionLoad{Requests: 99, Waiting: waiting, Running: running}
}

func TestEachCallCountsOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		look, before Look
		want         uint64
	}{
		"nothing":                        {},
		"a request that waits":           {look: Look{Gateways: gateways(1, 0)}, want: 1},
		"a call of a pod's own":          {look: Look{Pods: pods{first: {Running: 1}}}, want: 1},
		"calls of all pods are added up": {look: Look{Pods: pods{first: {Running: 3}, second: {Running: 4}}}, want: 7},
		"a call through a gateway": {
			look: Look{Gateways: gateways(0, 1), Pods: pods{first: {Running: 1, ViaGateway: 1}}}, want: 1,
		},
		"a call through a gateway that has not reached its pod": {
			look: Look{Gateways: gateways(0, 1), Pods: pods{first: {}}}, want: 1,
		},
		"some wait, some run, some came directly": {
			look: Look{Gateways: gateways(5, 3), Pods: pods{first: {Running: 4, ViaGateway: 2}, second: {Running: 1, ViaGateway: 1}}}, want: 10,
		},
		"an event counts in the backlog": {
			look: Look{Events: 1, Pods: pods{first: {Running: 1, ViaEventbridge: 1}}}, want: 0,
		},
		"an event that ended while the pods were asked": {
			look: Look{Pods: pods{first: {Running: 1, ViaEventbridge: 1}}}, before: Look{Events: 1}, want: 0,
		},
		"an event that began since the backlog was read": {
			look: Look{Events: 1, Pods: pods{first: {Running: 2, ViaEventbridge: 2}}}, before: Look{Events: 1}, want: 1,
		},
		"a forged header of a gateway": {
			look: Look{Pods: pods{first: {Running: 7, ViaGateway: 7}}}, want: 7,
		},
		"a forged header of the eventbridge": {
			look: Look{Pods: pods{first: {Running: 7, ViaEventbridge: 7}}}, want: 7,
		},
		"forged headers at many pods hide no more than one gateway's call": {
			look: Look{Gateways: gateways(0, 1), Pods: pods{first: {Running: 2, ViaGateway: 2}, second: {Running: 2, ViaGateway: 2}}}, want: 4,
		},
		"forged headers hide no more than the events in flight": {
			look: Look{Events: 2, Pods: pods{first: {Running: 5, ViaEventbridge: 5}}}, want: 3,
		},
		"a pod that claims more than it runs": {
			look: Look{Gateways: gateways(0, 9), Events: 9, Pods: pods{first: {Running: 1, ViaGateway: 9, ViaEventbridge: 9}, second: {Running: 1}}},
			want: 10,
		},
		"a gateway that is gone takes its calls along, and its pod has them": {
			look: Look{Pods: pods{first: {Running: 1, ViaGateway: 1}}}, before: Look{Gateways: gateways(0, 1)}, want: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.look.Load(tc.before))
		})
	}
}

func TestACounterThatMovedIsASignOfCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, now pods
		want        bool
	}{
		"no pods":                                 {},
		"the same count":                          {before: pods{first: {Requests: 7}}, now: pods{first: {Requests: 7}}},
		"a call between the looks":                {before: pods{first: {Requests: 7}}, now: pods{first: {Requests: 8}}, want: true},
		"at the second pod":                       {before: pods{first: {Requests: 7}, second: {}}, now: pods{first: {Requests: 7}, second: {Requests: 1}}, want: true},
		"a pod that was restarted":                {before: pods{first: {Requests: 7}}, now: pods{first: {}}, want: true},
		"a new pod without calls":                 {before: pods{first: {Requests: 7}}, now: pods{first: {Requests: 7}, second: {}}},
		"a new pod with calls":                    {before: pods{}, now: pods{second: {Requests: 1}}, want: true},
		"a pod that is gone":                      {before: pods{first: {Requests: 7}, second: {Requests: 1}}, now: pods{first: {Requests: 7}}},
		"another pod in its place, without calls": {before: pods{first: {Requests: 7}}, now: pods{second: {}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Look{Pods: tc.now}.Moved(Look{Pods: tc.before}))
		})
	}
}
