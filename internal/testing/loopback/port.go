package loopback

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Host is where all reserved ports are.
const Host = "127.0.0.1"

// Reserve finds a port that refuses connections until the caller listens on it, and again afterwards. A
// bound socket that does not listen keeps it from everybody else until the test ends; SO_REUSEADDR, which
// Go's listeners set as well, lets the caller in beside it.
func Reserve(t testing.TB) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	require.NoError(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte(net.ParseIP(Host).To4())}))
	address, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	inet, ok := address.(*syscall.SockaddrInet4)
	require.True(t, ok)
	return inet.Port
}

// Address is the reserved port as host:port.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort(Host, strconv.Itoa(Reserve(t)))
}
