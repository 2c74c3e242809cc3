package httpload

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// mostPods limits the pods of one Function, and atATime the concurrent requests to them.
	mostPods = 1000
	atATime  = 32
	// podDialTimeout is less than answerTimeout, so that a refused connection is distinguished from a missing response.
	podDialTimeout = 250 * time.Millisecond
	answerTimeout  = 500 * time.Millisecond
	mostPodHeader  = 4 << 10
	mostBody       = 1 << 10
	// A connection outlasts the pauses between KEDA's polls.
	idleTimeout  = 30 * time.Second
	mostIdle     = 4096
	bufferSize   = 1 << 10
	userAgent    = "rouse-scaler"
	perNamespace = 64
)

// PodsOptions configure Pods.
type PodsOptions struct {
	// AllowLoopback is for tests, whose pods are servers of the same machine.
	AllowLoopback bool
}

// Pods requests loads from pods. It is safe for concurrent use.
type Pods struct {
	http          *http.Client
	answerTimeout time.Duration
	namespaces    limits
}

// NewPods returns a client for the load of pods.
func NewPods(o PodsOptions) *Pods { return newClient(o, podDialTimeout, answerTimeout) }

func newClient(o PodsOptions, dialTimeout, answerTimeout time.Duration) *Pods {
	return &Pods{answerTimeout: answerTimeout, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dialguard.Guard{AllowLoopback: o.AllowLoopback}.Dialer(dialTimeout).DialContext,
			DisableCompression:     true,
			MaxResponseHeaderBytes: mostPodHeader,
			MaxIdleConns:           mostIdle,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        idleTimeout,
			ReadBufferSize:         bufferSize,
			WriteBufferSize:        bufferSize,
		},
	}}
}

// Close ends the connections that are idle.
func (c *Pods) Close() { c.http.CloseIdleConnections() }

// Loads requests the load of all endpoints of a Function except those that terminate. The result holds the load of
// each endpoint that accepts connections, by address. The first failed request is an error.
func (c *Pods) Loads(ctx context.Context, namespace string, endpoints []routing.Endpoint) (map[string]activation.PodLoad, error) {
	if len(endpoints) > mostPods {
		return nil, fmt.Errorf("more than %d pods", mostPods)
	}
	slots, release := c.namespaces.acquire(namespace)
	defer release()
	var mu sync.Mutex
	loads := make(map[string]activation.PodLoad, len(endpoints))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, endpoint := range endpoints {
		if endpoint.Terminating {
			continue
		}
		group.Go(func() error {
			load, err := c.askInTurn(ctx, slots, endpoint.Address)
			switch {
			case err == nil:
				mu.Lock()
				loads[endpoint.Address] = load
				mu.Unlock()
			case endpoint.Ready || !notAccepting(err):
				return fmt.Errorf("pod %s %w", endpoint.Address, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return loads, nil
}

var (
	errAddress   = errors.New("has an invalid IP address")
	errDial      = errors.New("refused the connection")
	errTimeout   = errors.New("did not respond in time")
	errBroken    = errors.New("did not respond with valid HTTP")
	errTooLong   = errors.New("returned a load report that is too large")
	errNoLoad    = errors.New("returned an invalid load report")
	errNoRequest = errors.New("has an invalid address")
)

// notAccepting reports whether a pod does not listen yet, or does not exist.
func notAccepting(err error) bool { return errors.Is(err, errDial) }

// askInTurn asks one pod when its namespace has a free slot.
func (c *Pods) askInTurn(ctx context.Context, slots chan struct{}, address string) (activation.PodLoad, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return activation.PodLoad{}, errTimeout
	}
	return c.ask(ctx, address)
}

func (c *Pods) ask(ctx context.Context, address string) (activation.PodLoad, error) {
	// An address that is no IP address would be looked up, and could be another one each time.
	if _, err := netip.ParseAddrPort(address); err != nil {
		return activation.PodLoad{}, errAddress
	}
	ctx, cancel := context.WithTimeout(ctx, c.answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+activation.LoadPath, nil)
	if err != nil {
		return activation.PodLoad{}, errNoRequest
	}
	request.Header.Set("User-Agent", userAgent)
	response, err := c.http.Do(request)
	if err != nil {
		return activation.PodLoad{}, ownWords(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return activation.PodLoad{}, fmt.Errorf("returned status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, mostBody+1))
	switch {
	case err != nil:
		return activation.PodLoad{}, ownWords(ctx, err)
	case len(body) > mostBody:
		return activation.PodLoad{}, errTooLong
	}
	load, err := activation.DecodePodLoad(body)
	if err != nil {
		return activation.PodLoad{}, errNoLoad
	}
	return load, nil
}

// ownWords replaces an error that may quote the response.
func ownWords(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return errDial
	}
	if timeout, ok := errors.AsType[net.Error](err); ctx.Err() != nil || ok && timeout.Timeout() {
		return errTimeout
	}
	return errBroken
}

const (
	// silentFor is three times the longest pause of a gateway between two reports.
	silentFor    = 3 * time.Second
	mostLine     = 4 << 20
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

var (
	errSilent = errors.New("the gateway sent no load report in time")
	errEnded  = errors.New("the gateway closed the load stream")
)

// hold keeps a stream to one gateway until that is not listed any more, or ctx ends.
func (g *Gateways) hold(ctx context.Context, to *gateway) {
	backoff := g.backoff
	for {
		err := g.stream(ctx, to)
		begun, listed := g.ended(to)
		if !listed || ctx.Err() != nil {
			return
		}
		if begun {
			g.log.Info("the load stream of a gateway has ended", "gateway", to.address, "reason", err.Error())
			backoff = g.backoff
		} else {
			g.log.V(1).Info("cannot read the load of a gateway", "gateway", to.address, "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-to.turnedReady:
			backoff = g.backoff
		case <-time.After(backoff.Step()):
		}
	}
}

// ended forgets what the gateway holds, and the gateway itself when it is not listed any more.
func (g *Gateways) ended(from *gateway) (begun, listed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	begun, from.live = from.live, false
	if !from.listed {
		delete(g.gateways, from.address)
	}
	return begun, from.listed
}

// stream reads one stream until it ends, and returns the reason.
func (g *Gateways) stream(ctx context.Context, from *gateway) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(g.silence, func() { cancel(errSilent) })
	defer silence.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+from.address+activation.GatewayLoadPath, nil)
	if err != nil {
		return fmt.Errorf("invalid gateway address: %w", err)
	}
	response, err := g.http.Do(request)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway returned status %d", response.StatusCode)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, mostLine)
	for begun := false; lines.Scan(); begun = true {
		silence.Reset(g.silence)
		line, err := activation.DecodeGatewayLoads(lines.Bytes())
		if err != nil {
			return err
		}
		notify, err := g.apply(from, line, begun)
		if err != nil {
			return err
		}
		for _, each := range notify {
			each.notify()
		}
	}
	return cmp.Or(context.Cause(ctx), lines.Err(), errEnded)
}

// apply records a line, and returns the watchers to notify.
func (g *Gateways) apply(from *gateway, line loads, begun bool) ([]*watcher, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var called []types.NamespacedName
	var err error
	if begun {
		called, err = from.ledger.change(line)
	} else {
		called, err = from.ledger.begin(line)
	}
	if err != nil {
		return nil, err
	}
	from.live = true
	return g.watchersOf(called), nil
}

// limits hand out slots to namespaces: as many to each. Its zero value is ready to use.
type limits struct {
	mu    sync.Mutex
	inUse map[string]*limit
}

type limit struct {
	users int
	slots chan struct{}
}

// acquire returns the namespace's slots, which are kept until the last of its users has called release.
func (l *limits) acquire(namespace string) (slots chan struct{}, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.inUse[namespace]
	if held == nil {
		held = &limit{slots: make(chan struct{}, perNamespace)}
		if l.inUse == nil {
			l.inUse = map[string]*limit{}
		}
		l.inUse[namespace] = held
	}
	held.users++
	return held.slots, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if held.users--; held.users == 0 {
			delete(l.inUse, namespace)
		}
	}
}
