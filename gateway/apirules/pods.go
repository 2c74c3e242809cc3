package apirules

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
)

var errNoPod = errors.New("the Service has no pod")

// Endpoints watches where a Service can be reached.
type Endpoints interface {
	// Watch calls apply with the endpoints of the Service's port, at once and after each change, one call at a time, until ctx ends.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// pods connects to the pods of Services. The cluster IP of a Service leads wherever its EndpointSlices say, also to pods of other
// namespaces, for who may write those: endpoints are what is known to be its own.
type pods struct {
	endpoints Endpoints
	guard     dialguard.Guard
}

// serviceAddress names a Service and its port for dial. Connections are kept by it, so no Service gets those of another one that had
// its cluster IP before.
func serviceAddress(to *apirule.Backend) string {
	return net.JoinHostPort(to.Service.Name+"."+to.Service.Namespace, strconv.Itoa(int(to.Port)))
}

// dial connects to one of the pods behind an address of serviceAddress, as a Service does for each connection.
func (p *pods) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	pod, err := p.choose(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return p.guard.Dialer(dialTimeout).DialContext(ctx, network, pod)
}

func (p *pods) choose(ctx context.Context, address string) (string, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return "", err
	}
	name, namespace, _ := strings.Cut(host, ".")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all []routing.Endpoint
	err = p.endpoints.Watch(ctx, types.NamespacedName{Namespace: namespace, Name: name}, int32(port), func(current []routing.Endpoint) {
		all = current
		stop()
	})
	if err != nil {
		return "", err
	}
	// As a Service does: where none is ready, one that ends may take it.
	usable := slices.DeleteFunc(slices.Clone(all), func(e routing.Endpoint) bool { return !e.Ready || e.Terminating })
	if len(usable) == 0 {
		usable = slices.DeleteFunc(slices.Clone(all), func(e routing.Endpoint) bool { return !e.Terminating })
	}
	if len(usable) == 0 {
		return "", errNoPod
	}
	return usable[rand.IntN(len(usable))].Address, nil //nolint:gosec // nothing is secret about it
}
