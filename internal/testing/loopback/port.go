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

// mostTries bounds the search for adjacent ports.
const mostTries = 100

// Reserve finds a port that refuses connections until the caller listens on it, and again afterwards. A
// bound socket that does not listen keeps it from all others until the test ends; SO_REUSEADDR, which
// Go's listeners set as well, lets the caller in beside it.
func Reserve(t testing.TB) int {
	t.Helper()
	port, err := bind(t, 0)
	require.NoError(t, err)
	return port
}

// ReserveRow reserves adjacent ports and returns the first.
func ReserveRow(t testing.TB, length int) int {
	t.Helper()
	for range mostTries {
		first := Reserve(t)
		next := first + 1
		for next < first+length {
			if _, err := bind(t, next); err != nil {
				break
			}
			next++
		}
		if next == first+length {
			return first
		}
	}
	require.FailNow(t, "no adjacent ports are free")
	return 0
}

// bind holds a port, 0 for any, until the test ends.
func bind(t testing.TB, port int) (int, error) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	require.NoError(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte(net.ParseIP(Host).To4())})
	if err != nil {
		return 0, err
	}
	address, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	inet, ok := address.(*syscall.SockaddrInet4)
	require.True(t, ok)
	return inet.Port, nil
}

// Address is the reserved port as host:port.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort(Host, strconv.Itoa(Reserve(t)))
}
