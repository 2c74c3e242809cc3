package activator

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
)

const (
	// GatewayPort is where a gateway tells its load, that it works, and which APIRules it has loaded.
	GatewayPort = 9091
	// maxGateways bounds the gateways of a family that are listed.
	maxGateways = 100
)

// gateway is one of them, by an address.
type gateway struct {
	address string
	node    string // where it runs, empty when that is not known
}

// gateways are those that may be listed.
type gateways struct {
	// families are those of all gateways, whatever their state.
	families []discoveryv1.AddressType
	ready    map[discoveryv1.AddressType][]gateway
}

// gatewaysOf finds the gateways that are ready and do not end, in the slices of their Service.
func gatewaysOf(list []discoveryv1.EndpointSlice, lost func(address string) bool) gateways {
	found := gateways{ready: map[discoveryv1.AddressType][]gateway{}}
	for i := range list {
		slice := &list[i]
		if activation.IsOurs(slice) || len(slice.Endpoints) == 0 || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		found.families = append(found.families, slice.AddressType)
		for j := range slice.Endpoints {
			if endpoint := &slice.Endpoints[j]; isReady(endpoint) && !lost(endpoint.Addresses[0]) {
				found.ready[slice.AddressType] = append(found.ready[slice.AddressType],
					gateway{address: endpoint.Addresses[0], node: ptr.Deref(endpoint.NodeName, "")})
			}
		}
	}
	slices.Sort(found.families)
	found.families = slices.Compact(found.families)
	for family, ready := range found.ready {
		slices.SortFunc(ready, func(a, b gateway) int { return cmp.Compare(a.address, b.address) })
		ready = slices.CompactFunc(ready, func(a, b gateway) bool { return a.address == b.address }) // one that moves is in two slices
		found.ready[family] = ready[:min(len(ready), maxGateways)]
	}
	return found
}

// isReady reports whether an endpoint serves and goes on to.
func isReady(endpoint *discoveryv1.Endpoint) bool {
	return len(endpoint.Addresses) > 0 && ptr.Deref(endpoint.Conditions.Ready, true) && !ptr.Deref(endpoint.Conditions.Terminating, false)
}

// isAwake reports whether a pod of a Function is ready, by the slices of its Service.
func isAwake(list []discoveryv1.EndpointSlice) bool {
	for i := range list {
		slice := &list[i]
		if activation.IsOurs(slice) {
			continue
		}
		for j := range slice.Endpoints {
			if isReady(&slice.Endpoints[j]) {
				return true
			}
		}
	}
	return false
}

// slicesOf are those of a Service. They are the cache's: do not change them.
func slicesOf(ctx context.Context, reader client.Reader, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := reader.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingFields{serviceIndex: service.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %q: %w", service, err)
	}
	return list.Items, nil
}

// Gateways are the addresses of the gateways that are ready, one of each, for those who ask all of them.
func Gateways(ctx context.Context, reader client.Reader, service types.NamespacedName) ([]string, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := reader.List(ctx, list, client.InNamespace(service.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %q: %w", service, err)
	}
	found := gatewaysOf(list.Items, func(string) bool { return false })
	for _, family := range found.families {
		if ready := found.ready[family]; len(ready) > 0 { // one with two families has two addresses
			addresses := make([]string, len(ready))
			for i := range ready {
				addresses[i] = ready[i].address
			}
			return addresses, nil
		}
	}
	return nil, nil
}

const (
	// probeInterval is how often a gateway is asked, and twice as often after it has not answered.
	probeInterval = time.Second
	// maxMisses in a row make a gateway lost.
	maxMisses = 2
)

// health asks whether a gateway works.
type health interface {
	Works(ctx context.Context, address string) error
}

// prober finds gateways that Kubernetes takes for ready and that do not answer, as on a node that has failed. One is lost
// within two seconds and back with its first answer.
type prober struct {
	reader  client.Reader
	service types.NamespacedName
	health  health
	changed func(context.Context) // is called when a gateway was lost or is back
	log     logr.Logger

	mu     sync.Mutex
	misses map[string]int // by address; none for those that have answered
}

// lost reports whether a gateway does not answer.
func (p *prober) lost(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.misses[address] >= maxMisses
}

// Start asks the gateways until ctx ends.
func (p *prober) Start(ctx context.Context) error {
	ticker := time.NewTicker(probeInterval / 2)
	defer ticker.Stop()
	for all := true; ; all = !all {
		if p.probe(ctx, all) {
			p.changed(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// probe asks all gateways, or those that have just not answered. It reports whether one was lost or is back.
func (p *prober) probe(ctx context.Context, all bool) bool {
	list, err := slicesOf(ctx, p.reader, p.service)
	if err != nil {
		p.log.Error(err, "cannot find the gateways")
		return false
	}
	var present []string
	for _, family := range gatewaysOf(list, func(string) bool { return false }).ready {
		for _, each := range family {
			present = append(present, each.address)
		}
	}
	answers := make(map[string]bool, len(present))
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, address := range present {
		if !all && !p.missed(address) {
			continue
		}
		asked.Go(func() {
			err := p.health.Works(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			answers[address] = err == nil
		})
	}
	asked.Wait()
	if ctx.Err() != nil {
		return false
	}
	return p.settle(present, answers)
}

func (p *prober) missed(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.misses[address] > 0
}

// settle takes over a round of answers.
func (p *prober) settle(present []string, answers map[string]bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.misses
	p.misses = next(before, present, answers)
	changed := false
	for _, address := range present {
		was, is := before[address] >= maxMisses, p.misses[address] >= maxMisses
		if was == is {
			continue
		}
		changed = true
		if is {
			p.log.Info("a gateway does not answer", "address", address)
		} else {
			p.log.Info("a gateway answers again", "address", address)
		}
	}
	return changed
}

// next counts how often gateways in a row have not answered. Those that are not present any more are forgotten.
func next(misses map[string]int, present []string, answers map[string]bool) map[string]int {
	after := map[string]int{}
	for _, address := range present {
		answered, asked := answers[address]
		switch {
		case !asked && misses[address] > 0:
			after[address] = misses[address]
		case asked && !answered:
			after[address] = min(misses[address]+1, maxMisses)
		}
	}
	return after
}

const (
	// checkTimeout is how long an activator may take to say whose it is, and probeTimeout a gateway that it works.
	checkTimeout = time.Second
	probeTimeout = 500 * time.Millisecond
	// maxChecks bounds the activators that are asked at a time.
	maxChecks = 64
	// maxHeader bounds the header of an answer. The body is not read.
	maxHeader = 8 << 10
)

// Dial opens connections to gateways.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// caller asks activators and gateways over HTTP.
type caller struct {
	client *http.Client
	checks chan struct{}
}

func newCaller(dial Dial) *caller {
	return &caller{
		client: &http.Client{
			Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		checks: make(chan struct{}, maxChecks),
	}
}

// FunctionAt asks whose activator listens there.
func (c *caller) FunctionAt(ctx context.Context, address string, port int32) (types.UID, error) {
	select {
	case c.checks <- struct{}{}:
		defer func() { <-c.checks }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	header, err := c.get(ctx, address, port, checkTimeout)
	return types.UID(header.Get(activation.HeaderFunction)), err
}

// Works asks whether a gateway works.
func (c *caller) Works(ctx context.Context, address string) error {
	_, err := c.get(ctx, address, GatewayPort, probeTimeout)
	return err
}

func (c *caller) get(ctx context.Context, address string, port int32, timeout time.Duration) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	host := net.JoinHostPort(address, strconv.Itoa(int(port)))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/healthz", nil)
	if err != nil {
		return nil, fmt.Errorf("ask gateway %s: %w", host, err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask gateway %s: %w", host, err)
	}
	if err := response.Body.Close(); err != nil {
		return nil, fmt.Errorf("ask gateway %s: %w", host, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask gateway %s: it answers with status %d", host, response.StatusCode)
	}
	return response.Header, nil
}
