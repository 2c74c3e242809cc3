package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// errNeverSink means that the name of a sink led to an address that nobody may be sent to.
var errNeverSink = errors.New("the address is never a sink")

// external is the only endpoint of a sink outside the cluster: its host and port.
type external string

// Watch implements Endpoints: the address is there for good, and connecting shows whether it answers.
func (e external) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	apply([]routing.Endpoint{{Address: string(e), Ready: true}})
	<-ctx.Done()
	return nil
}

// dialer connects to the endpoints of a target. What an external name resolves to is judged when it is dialled: the
// next answer of its DNS server may be another.
func dialer(target Target, timeout time.Duration) *net.Dialer {
	d := &net.Dialer{Timeout: timeout}
	if target.External {
		d.Control = refuseNever
	}
	return d
}

func refuseNever(_, address string, _ syscall.RawConn) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil || routing.NeverSink(parsed.Addr()) {
		return fmt.Errorf("connect to %s: %w", address, errNeverSink)
	}
	return nil
}
