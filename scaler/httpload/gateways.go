package httpload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
)

// GatewayPort is the gateways' port for their load, at their Service.
const GatewayPort = 9091

const (
	mostGateways = 256
	mostHeader   = 16 << 10
	dialTimeout  = time.Second
	rewatchPause = time.Second
)

// ErrUnknown means that the load of the gateways is not known.
var ErrUnknown = errors.New("load of the gateways is not known")

// Endpoints watches the endpoints of a Service.
type Endpoints interface {
	// Watch hands the endpoints of one port to apply, now and after each change, until ctx ends.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// GatewaysOptions configure Gateways.
type GatewaysOptions struct {
	// Service is the Service of the gateways; without a name there are none.
	Service types.NamespacedName
	// AllowLoopback is for tests, whose gateways are servers of the same machine.
	AllowLoopback bool
}

// Gateways holds a stream to each gateway.
type Gateways struct {
	endpoints Endpoints
	service   types.NamespacedName
	http      *http.Client
	silence   time.Duration // after which a stream has ended
	backoff   wait.Backoff  // between two streams
	log       logr.Logger

	mu       sync.Mutex
	known    bool                // the endpoints are
	excess   bool                // there are too many gateways
	gateways map[string]*gateway // by address
	watchers map[types.NamespacedName]map[*watcher]struct{}
}

// gateway is one of them. Its fields belong to the lock of Gateways.
type gateway struct {
	address string
	listed  bool // the Service has it
	needed  bool // it is Ready and does not terminate: it may hold requests that no one else knows of
	live    bool // its stream has begun and not ended
	ledger  ledger

	turnedReady chan struct{} // a note to try at once
}

// NewGateways makes Gateways that do nothing before Run.
func NewGateways(endpoints Endpoints, o GatewaysOptions, log logr.Logger) *Gateways {
	return &Gateways{
		endpoints: endpoints,
		service:   o.Service,
		silence:   silentFor,
		backoff:   wait.Backoff{Duration: firstPause, Cap: longestPause, Factor: 2, Jitter: 0.2, Steps: 10},
		log:       log,
		http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:            dialguard.Guard{AllowLoopback: o.AllowLoopback}.Dialer(dialTimeout).DialContext,
				DisableCompression:     true,
				DisableKeepAlives:      true, // a stream has its connection for itself
				MaxResponseHeaderBytes: mostHeader,
			},
		},
		gateways: map[string]*gateway{},
		watchers: map[types.NamespacedName]map[*watcher]struct{}{},
	}
}

// Run follows the gateways until ctx ends.
func (g *Gateways) Run(ctx context.Context) error {
	if g.service.Name == "" {
		<-ctx.Done()
		return nil
	}
	var streams sync.WaitGroup
	defer streams.Wait()
	for ctx.Err() == nil {
		err := g.endpoints.Watch(ctx, g.service, GatewayPort, func(found []routing.Endpoint) { g.follow(ctx, &streams, found) })
		if ctx.Err() != nil {
			break
		}
		g.log.Error(err, "cannot watch the gateways", "service", g.service.String())
		g.mu.Lock()
		g.known = false
		g.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
	return nil
}

// follow begins a stream to each gateway that is new. One that is not listed any more ends it by itself.
func (g *Gateways) follow(ctx context.Context, streams *sync.WaitGroup, found []routing.Endpoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known, g.excess = true, len(found) > mostGateways
	for _, known := range g.gateways {
		known.listed, known.needed = false, false
	}
	for _, endpoint := range found[:min(len(found), mostGateways)] {
		known := g.gateways[endpoint.Address]
		if known == nil {
			known = &gateway{address: endpoint.Address, turnedReady: make(chan struct{}, 1)}
			g.gateways[endpoint.Address] = known
			streams.Go(func() { g.hold(ctx, known) })
		}
		known.listed, known.needed = true, endpoint.Ready && !endpoint.Terminating
		if known.needed && !known.live {
			select {
			case known.turnedReady <- struct{}{}:
			default:
			}
		}
	}
}

// Load is what the gateways hold for the Function, their sum. With an error there may be more.
func (g *Gateways) Load(function types.NamespacedName) (activation.FunctionLoad, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var sum activation.FunctionLoad
	var err error
	for _, each := range g.gateways {
		if !each.live {
			if each.needed {
				err = fmt.Errorf("%w: no load stream to gateway %s", ErrUnknown, each.address)
			}
			continue
		}
		load := each.ledger.loads[function]
		sum.Requests += load.Requests
		sum.Waiting += load.Waiting
		sum.Running += load.Running
	}
	switch {
	case g.service.Name == "":
	case !g.known:
		err = fmt.Errorf("%w: the endpoints of Service %s are not known", ErrUnknown, g.service)
	case g.excess:
		err = fmt.Errorf("%w: Service %s has more than %d endpoints", ErrUnknown, g.service, mostGateways)
	}
	return sum, err
}

// Connected counts the gateways that have a stream.
func (g *Gateways) Connected() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	count := 0
	for _, each := range g.gateways {
		if each.live {
			count++
		}
	}
	return count
}

// watcher wants to know of the requests for one Function.
type watcher struct{ notify func() }

// OnRequest calls notify each time that a gateway has taken requests for the Function, until stop is called. It must not block.
func (g *Gateways) OnRequest(function types.NamespacedName, notify func()) (stop func()) {
	added := &watcher{notify: notify}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watchers[function] == nil {
		g.watchers[function] = map[*watcher]struct{}{}
	}
	g.watchers[function][added] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.watchers[function], added)
		if len(g.watchers[function]) == 0 {
			delete(g.watchers, function)
		}
	}
}

// watchersOf are those of the Functions. The lock must be held.
func (g *Gateways) watchersOf(functions []types.NamespacedName) []*watcher {
	var found []*watcher
	for _, function := range functions {
		for each := range g.watchers[function] {
			found = append(found, each)
		}
	}
	return found
}

// MetricName is KEDA's metric of calls over HTTP.
const MetricName = "http-concurrency"

// Look is what was seen of a Function's calls at one moment.
type Look struct {
	// Gateways is the sum over the gateways.
	Gateways activation.FunctionLoad
	// Pods are those that were asked, by address.
	Pods map[string]activation.PodLoad
	// Events are those of the Function that are in flight.
	Events uint64
}

// Load counts the calls that wait or run. What pods report as a gateway's or as an event is left out as far as it is
// counted there. An event that was in flight at the look before may still be what a pod reports.
func (l Look) Load(before Look) uint64 {
	var running, viaGateway, viaEventbridge uint64
	for _, pod := range l.Pods {
		ofGateways := min(pod.ViaGateway, pod.Running)
		running += pod.Running
		viaGateway += ofGateways
		viaEventbridge += min(pod.ViaEventbridge, pod.Running-ofGateways)
	}
	elsewhere := min(viaGateway, l.Gateways.Running) + min(viaEventbridge, max(l.Events, before.Events))
	return l.Gateways.Waiting + l.Gateways.Running + running - elsewhere
}

// Moved reports whether a pod has taken calls since the look before. One that was restarted, or that is new and has taken
// some, has; one that is gone has not.
func (l Look) Moved(before Look) bool {
	for address, pod := range l.Pods {
		if pod.Requests != before.Pods[address].Requests {
			return true
		}
	}
	return false
}
