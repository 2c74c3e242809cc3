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
	// GatewayPort is the port on which a gateway reports its load, its health and the APIRules that it has loaded.
	GatewayPort = 9091
	// maxGateways bounds the gateways of an address family that are listed.
	maxGateways = 100
)

// gateway is an address of a gateway.
type gateway struct {
	address string
	node    string // the node that it runs on, empty when unknown
}

// gateways holds the gateways that may be listed.
type gateways struct {
	// families holds the address families of all gateways, whatever their state.
	families []discoveryv1.AddressType
	ready    map[discoveryv1.AddressType][]gateway
}

// gatewaysOf returns the gateways that are ready and not terminating, by the slices of their Service.
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
		ready = slices.CompactFunc(ready, func(a, b gateway) bool { return a.address == b.address }) // while an endpoint moves it is in two slices
		found.ready[family] = ready[:min(len(ready), maxGateways)]
	}
	return found
}

// isReady reports whether an endpoint serves and is not terminating.
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

// slicesOf returns the slices of a Service. They belong to the cache and must not be modified.
func slicesOf(ctx context.Context, reader client.Reader, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := reader.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingFields{serviceIndex: service.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %q: %w", service, err)
	}
	return list.Items, nil
}

// Gateways returns the addresses of the ready gateways, one of each, for callers that query all of them.
func Gateways(ctx context.Context, reader client.Reader, service types.NamespacedName) ([]string, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := reader.List(ctx, list, client.InNamespace(service.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %q: %w", service, err)
	}
	found := gatewaysOf(list.Items, func(string) bool { return false })
	for _, family := range found.families {
		if ready := found.ready[family]; len(ready) > 0 { // a dual-stack gateway has two addresses
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
	// probeInterval is how often a gateway is probed, and twice as often after a failed probe.
	probeInterval = time.Second
	// maxMisses is the number of failed probes in a row after which a gateway is lost.
	maxMisses = 2
)

// prober finds gateways that Kubernetes reports as ready and that do not answer, as on a failed node. A gateway is lost
// within two seconds and back with its first answer.
type prober struct {
	reader  client.Reader
	service types.NamespacedName
	health  *caller
	changed func(context.Context) // called when a gateway is lost or back
	log     logr.Logger

	mu     sync.Mutex
	misses map[string]int // failed probes in a row by address; absent after an answer
}

// lost reports whether a gateway does not answer.
func (p *prober) lost(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.misses[address] >= maxMisses
}

// Start probes the gateways until ctx ends.
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

// probe probes all gateways, or only those whose last probe failed. It reports whether one was lost or is back.
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

// settle records a round of answers.
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
			p.log.Info("gateway does not answer", "address", address)
		} else {
			p.log.Info("gateway answers again", "address", address)
		}
	}
	return changed
}

// next counts the failed probes in a row, and drops gateways that are no longer present.
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
	// checkTimeout bounds how long an activator may take to name its Function, and probeTimeout a health probe.
	checkTimeout = time.Second
	probeTimeout = 500 * time.Millisecond
	// maxChecks bounds the concurrent queries to activators.
	maxChecks = 64
	// maxHeader bounds the header of a response. The body is not read.
	maxHeader = 8 << 10
)

// Dial opens connections to gateways.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// caller sends HTTP requests to activators and gateways.
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

// FunctionAt returns the Function whose activator listens at an address and port.
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

// Works probes a gateway's health.
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
		return nil, fmt.Errorf("query gateway %s: %w", host, err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("query gateway %s: %w", host, err)
	}
	if err := response.Body.Close(); err != nil {
		return nil, fmt.Errorf("query gateway %s: %w", host, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("query gateway %s: status %d", host, response.StatusCode)
	}
	return response.Header, nil
}
