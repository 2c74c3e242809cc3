package endpoint

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const timeout = time.Minute

// dialled returns a pool that dials until the test ends, and the addresses of its attempts.
func dialled(t *testing.T, change ...func(*Options[struct{}])) (*Pool[struct{}], <-chan string) {
	t.Helper()
	attempts := make(chan string, 1000)
	options := Options[struct{}]{DialInterval: time.Millisecond, Dialer: &net.Dialer{
		Timeout: ProbeTimeout,
		Control: func(_, address string, _ syscall.RawConn) error {
			select {
			case attempts <- address:
			default:
			}
			return nil
		},
	}}
	for _, c := range change {
		c(&options)
	}
	p := NewPool(options)
	t.Cleanup(p.Dial(context.WithoutCancel(t.Context())))
	return p, attempts
}

func open(t *testing.T, p *Pool[struct{}]) (closed <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	closed, err := p.Gate().Wait(ctx)
	require.NoError(t, err)
	return closed
}

func TestAStartingFunctionIsUsableAsSoonAsItAccepts(t *testing.T) {
	t.Parallel()
	server := loopback.ReserveSink(t, nil)
	p, attempts := dialled(t)
	p.Apply([]routing.Endpoint{loopback.StartingSink(server.Address())})
	for range 3 {
		require.Equal(t, server.Address(), <-attempts)
	}
	require.False(t, p.Gate().IsOpen())
	server.Restart(t)
	closed := open(t, p)
	require.Equal(t, server.Address(), p.Pick().Address())
	require.False(t, p.Ready(), "its probe has not passed")

	p.Apply([]routing.Endpoint{{Address: server.Address(), Function: true, Terminating: true}})
	<-closed
	require.Nil(t, p.Pick())
}

func TestAnAddressThatRefusedIsUsableWhenItAcceptsAgain(t *testing.T) {
	t.Parallel()
	server := loopback.ReserveSink(t, nil)
	p, attempts := dialled(t)
	p.Apply([]routing.Endpoint{loopback.Ready(server.Address())})
	closed := open(t, p)
	require.Empty(t, attempts, "a ready address must not be dialled")
	p.Refuse(p.Pick())
	<-closed
	<-attempts
	server.Restart(t)
	open(t, p)
}

func TestOnlyStartingFunctionsAreDialled(t *testing.T) {
	t.Parallel()
	awaitReady := func(o *Options[struct{}]) { o.AwaitReady = true }
	for name, tc := range map[string]struct {
		endpoint routing.Endpoint
		change   []func(*Options[struct{}])
	}{
		"another Service":                   {},
		"a Function that terminates":        {endpoint: routing.Endpoint{Function: true, Terminating: true}},
		"a Function that awaits its probes": {endpoint: routing.Endpoint{Function: true}, change: []func(*Options[struct{}]){awaitReady}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, other := loopback.StartSink(t, nil), loopback.StartSink(t, nil)
			p, attempts := dialled(t, tc.change...)
			tc.endpoint.Address = server.Address()
			// The attempts at the other address show that the pool dials.
			p.Apply([]routing.Endpoint{tc.endpoint, loopback.Ready(other.Address())})
			p.Refuse(p.Pick())
			open(t, p)
			require.Equal(t, other.Address(), p.Pick().Address())
			require.Equal(t, 1, p.Usable())
			for len(attempts) > 0 {
				require.Equal(t, other.Address(), <-attempts)
			}
			tc.endpoint.Ready, tc.endpoint.Terminating = true, false
			p.Apply([]routing.Endpoint{tc.endpoint})
			require.Equal(t, server.Address(), p.Pick().Address())
		})
	}
}

func TestDiallingEndsWithItsAddress(t *testing.T) {
	t.Parallel()
	server, other := loopback.ReserveSink(t, nil), loopback.ReserveSink(t, nil)
	p, attempts := dialled(t)
	p.Apply([]routing.Endpoint{loopback.StartingSink(server.Address())})
	require.Equal(t, server.Address(), <-attempts)
	p.Apply([]routing.Endpoint{loopback.StartingSink(other.Address())})
	for <-attempts == server.Address() {
	}
	late := 0
	for range 10 {
		if <-attempts == server.Address() {
			late++
		}
	}
	require.LessOrEqual(t, late, 1, "only the attempt in progress may follow")
}

func TestDiallingCanBeStoppedAndBegunAgain(t *testing.T) {
	t.Parallel()
	server := loopback.ReserveSink(t, nil)
	p := NewPool(Options[struct{}]{DialInterval: time.Millisecond, Dialer: &net.Dialer{Timeout: ProbeTimeout}})
	p.Apply([]routing.Endpoint{loopback.StartingSink(server.Address())})
	for range 2 {
		p.Dial(t.Context())()
	}
	server.Restart(t)
	require.False(t, p.Gate().IsOpen(), "the stopped pool must not dial")
	stop := p.Dial(t.Context())
	defer stop()
	open(t, p)
}
