package sink

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/sinktest"
)

func TestAnExternalSinkIsReachedAtItsOwnHost(t *testing.T) {
	t.Parallel()
	server := sinktest.Start(t, nil)
	s, err := New(Target{URL: "http://api.example.com/in", Port: 80, External: true, MaxInFlight: 1}, Deps{Log: logr.Discard()}, DefaultOptions())
	require.NoError(t, err)
	s.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		assert.Equal(t, "api.example.com:80", address)
		return (&net.Dialer{}).DialContext(ctx, network, server.Address())
	}
	start(t, s)
	open(t, s)

	_, err = s.Send(t.Context(), order("1"))
	require.NoError(t, err)
	require.Equal(t, "api.example.com", server.Requests()[0].Host)
	require.Equal(t, "/in", server.Requests()[0].URI)
}

func TestAnExternalSinkNeverLeadsToTheMachineItself(t *testing.T) {
	t.Parallel()
	server := sinktest.Start(t, nil)
	_, port, err := net.SplitHostPort(server.Address())
	require.NoError(t, err)
	number, err := net.LookupPort("tcp", port)
	require.NoError(t, err)
	s, err := New(Target{URL: "http://localhost:" + port, Port: int32(number), External: true}, Deps{Log: logr.Discard()}, DefaultOptions())
	require.NoError(t, err)
	s.pool.apply([]routing.Endpoint{{Address: "localhost:" + port, Ready: true}})

	_, err = s.Send(t.Context(), order("1"))
	require.ErrorIs(t, err, dispatch.ErrSinkGone)
	require.Empty(t, server.Requests())
	_, err = dialer(s.target, s.probeTimeout()).DialContext(t.Context(), "tcp", server.Address())
	require.ErrorIs(t, err, errNeverSink)
}

func TestAddressesAreJudgedWhenTheyAreDialled(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"8.8.8.8:80": true, "10.1.2.3:443": true, "[2001:db8::1]:80": true,
		"169.254.169.254:80": false, "127.0.0.1:80": false, "[::1]:80": false, "[fe80::1%eth0]:80": false, "[::ffff:169.254.169.254]:80": false, "odd": false,
	} {
		t.Run(strings.ReplaceAll(address, ":", "_"), func(t *testing.T) {
			t.Parallel()
			if err := refuseNever("tcp", address, nil); want {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errNeverSink)
			}
		})
	}
}
