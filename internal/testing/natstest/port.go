package natstest

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// freePort asks the kernel for a port, so that the server can come back on it:
// a server that is told to choose for itself chooses anew at each start.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(loopback, "0"))
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return address.Port
}

func portString(port int) string { return strconv.Itoa(port) }
