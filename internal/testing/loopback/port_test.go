package loopback

import (
	"context"
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReservedPortRefusesUntilItsOwnerListensAndAgainAfterwards(t *testing.T) {
	t.Parallel()
	address := Address(t)
	requireRefused(t, address)
	for range 2 {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, listener.Close())
		requireRefused(t, address)
	}
}

func TestReservedPortIsNotGivenToOthers(t *testing.T) {
	t.Parallel()
	reserved := Address(t)
	for range 2000 {
		listener, err := new(net.ListenConfig).Listen(context.WithoutCancel(t.Context()), "tcp", Host+":0")
		require.NoError(t, err)
		require.NotEqual(t, reserved, listener.Addr().String())
		require.NoError(t, listener.Close())
	}
}

func TestARowOfPortsIsReservedAsAWhole(t *testing.T) {
	t.Parallel()
	first := ReserveRow(t, 3)
	for port := first; port < first+3; port++ {
		address := net.JoinHostPort(Host, strconv.Itoa(port))
		requireRefused(t, address)
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	}
}

func requireRefused(t *testing.T, address string) {
	t.Helper()
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
