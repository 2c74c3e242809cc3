package activator

import (
	"net"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func listing(name string, port int32) activation.Listing {
	return activation.Listing{Function: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID(name), Port: port}
}

func newPorts(t *testing.T) *Ports {
	t.Helper()
	p := NewPorts(loopback.Host, logr.Discard())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func dial(t *testing.T, port int32) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort(loopback.Host, strconv.Itoa(int(port))))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func accept(t *testing.T, p *Ports) (net.Conn, Owner) {
	t.Helper()
	conn, err := p.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	owner, ok := Of(conn)
	require.True(t, ok)
	return conn, owner
}

func TestThePortTellsWhichFunctionIsMeant(t *testing.T) {
	t.Parallel()
	p := newPorts(t)
	require.ErrorContains(t, p.Ready(), "not loaded yet")
	price, stock := listing("price", int32(loopback.Reserve(t))), listing("stock", int32(loopback.Reserve(t)))
	p.Set([]activation.Listing{price, stock})
	require.NoError(t, p.Ready())
	require.Equal(t, 2, p.Open())

	dial(t, stock.Port)
	_, owner := accept(t, p)
	require.Equal(t, stock, owner.Function())
	dial(t, price.Port)
	_, owner = accept(t, p)
	require.Equal(t, price, owner.Function())
}

func TestAPortThatGoesToAnotherFunctionAnswersNobodyWhoKeptAConnection(t *testing.T) {
	t.Parallel()
	p := newPorts(t)
	number := int32(loopback.Reserve(t))
	p.Set([]activation.Listing{listing("price", number)})
	dial(t, number)
	_, before := accept(t, p)
	require.False(t, before.Gone())

	p.Set([]activation.Listing{listing("stock", number)})
	require.True(t, before.Gone())
	require.Equal(t, "price", before.Function().Function.Name)
	dial(t, number)
	_, after := accept(t, p)
	require.Equal(t, "stock", after.Function().Function.Name)
	require.False(t, after.Gone())
}

func TestAPortThatIsTakenIsReportedAndDisturbsNoOther(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(loopback.Host, "0"))
	require.NoError(t, err)
	address, ok := taken.Addr().(*net.TCPAddr)
	require.True(t, ok)
	p := newPorts(t)
	both := []activation.Listing{listing("price", int32(address.Port)), listing("stock", int32(loopback.Reserve(t)))}
	p.Set(both)
	require.ErrorContains(t, p.Ready(), "address already in use")
	dial(t, both[1].Port)
	_, owner := accept(t, p)
	require.Equal(t, "stock", owner.Function().Function.Name)

	require.NoError(t, taken.Close())
	p.Set(both)
	require.NoError(t, p.Ready())
}

func TestClosingEndsAcceptAndLeavesConnections(t *testing.T) {
	t.Parallel()
	p := NewPorts(loopback.Host, logr.Discard())
	price := listing("price", int32(loopback.Reserve(t)))
	p.Set([]activation.Listing{price})
	client := dial(t, price.Port)
	conn, _ := accept(t, p)
	require.NoError(t, p.Close())
	_, err := p.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	p.Set([]activation.Listing{listing("stock", int32(loopback.Reserve(t)))})
	require.Zero(t, p.Open())

	_, err = client.Write([]byte("x"))
	require.NoError(t, err)
	n, err := conn.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
