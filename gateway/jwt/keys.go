package jwt

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/fair"
)

const (
	// maxURIs bounds concurrent fetches, and the memory for their responses.
	maxURIs = 512
	// maxURIsPerNamespace leaves URIs to other namespaces.
	maxURIsPerNamespace = 32
	// maxTurns bounds the tokens that wait to be verified. A namespace has at most as many of them as it leaves free.
	maxTurns = 4096
)

// ErrManyURIs means that a URI is not fetched because there are too many.
var ErrManyURIs = errors.New("it is not fetched: rules name more URIs than 32 of a namespace or 512 in all")

// KeysOptions configures Keys.
type KeysOptions struct {
	// Guard decides which addresses may be dialled. Its zero value refuses those of this machine.
	Guard dialguard.Guard
	// RootCAs are trusted; nil means the system's.
	RootCAs *x509.CertPool
	// Now returns the current time.
	Now func() time.Time
}

// Keys caches the keys of all URIs in use, and the tokens that they verified.
type Keys struct {
	options  KeysOptions
	fetch    func(ctx context.Context, uri string, namespaces []string) (answer, error)
	random   func() float64
	verified *verifiedTokens
	turns    *fair.Pool    // processors that verify, by namespace
	changed  chan struct{} // wakes Run when there are new sources

	validators, generations atomic.Uint64

	mu      sync.RWMutex
	sources map[string]*source
}

// NewKeys returns Keys that fetch URIs through the proxy of the environment, if there is one.
func NewKeys(options KeysOptions) *Keys {
	return &Keys{
		options:  options,
		fetch:    newFetcher(options.Guard, options.RootCAs, http.ProxyFromEnvironment).fetch,
		random:   rand.Float64, // jitter needs no secrecy
		verified: newVerifiedTokens(maxVerified),
		turns:    fair.NewPool(turnsFor(runtime.GOMAXPROCS(0))),
		changed:  make(chan struct{}, 1),
		sources:  map[string]*source{},
	}
}

// Use sets the URIs that the rules of each namespace refer to, and drops the keys of others. It is called before a rule
// gets requests: its tokens are refused until then.
func (k *Keys) Use(wanted map[string][]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	admitted := admit(wanted, func(uri string) bool { return k.sources[uri] != nil })
	for uri, s := range k.sources {
		if _, stays := admitted[uri]; stays {
			continue
		}
		delete(k.sources, uri)
		s.end()
		if s.stop != nil {
			s.stop()
		}
	}
	for uri, namespaces := range admitted {
		if k.sources[uri] == nil {
			k.sources[uri] = newSource(uri, k)
		}
		k.sources[uri].isFor(namespaces)
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Run fetches until ctx ends, and returns when no fetch is running. Fetched keys remain in use.
func (k *Keys) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		k.start(ctx, &running)
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
		}
	}
}

// start runs each new source on its own goroutine, so that none waits for another.
func (k *Keys) start(ctx context.Context, running *sync.WaitGroup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sources {
		if s.stop != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		s.stop = stop
		running.Go(func() {
			defer stop()
			s.run(own)
		})
	}
}

// States returns the state of each fetched URI.
func (k *Keys) States() []State {
	k.mu.RLock()
	defer k.mu.RUnlock()
	states := make([]State, 0, len(k.sources))
	for _, s := range k.sources {
		states = append(states, s.state())
	}
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.URI, b.URI) })
	return states
}

// State returns the state of one URI, with ErrManyURIs if it is not fetched.
func (k *Keys) State(uri string) State {
	if s := k.source(uri); s != nil {
		return s.state()
	}
	return State{URI: uri, Err: ErrManyURIs}
}

func (k *Keys) source(uri string) *source {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.sources[uri]
}

// current returns the keys of a URI, or nil.
func (k *Keys) current(uri string) *keySet {
	if s := k.source(uri); s != nil {
		return s.current()
	}
	return nil
}

func (k *Keys) refetch(ctx context.Context, uri string, seen *keySet, kid string) *keySet {
	if s := k.source(uri); s != nil {
		return s.refetch(ctx, seen, kid)
	}
	return nil
}

// turnsFor leaves a processor to requests with a token that is cached, or without one. One namespace may use all other
// processors while no other namespace waits.
func turnsFor(processors int) fair.Limits {
	total := int64(max(processors-1, 1))
	return fair.Limits{Total: total, PerKey: total, Waiting: maxTurns}
}

// admit selects the URIs that are fetched, with the namespaces that refer to them. Namespaces take turns: each gets its
// first one before any gets a second. Within a turn, and within a namespace, known URIs come first, so that a new one
// does not displace one in use.
func admit(wanted map[string][]string, known func(uri string) bool) map[string][]string {
	var all [][]string
	namespaces := map[string][]string{}
	for _, namespace := range slices.Sorted(maps.Keys(wanted)) {
		uris := slices.Compact(slices.Sorted(slices.Values(wanted[namespace])))
		for _, uri := range uris {
			namespaces[uri] = append(namespaces[uri], namespace)
		}
		all = append(all, knownFirst(uris, known))
	}
	admitted := map[string][]string{}
	for turn := range maxURIsPerNamespace {
		var uris []string
		for _, each := range all {
			if turn < len(each) {
				uris = append(uris, each[turn])
			}
		}
		for _, uri := range knownFirst(uris, known) {
			if len(admitted) == maxURIs {
				return admitted
			}
			admitted[uri] = namespaces[uri]
		}
	}
	return admitted
}

// knownFirst moves known URIs to the front and otherwise keeps the order.
func knownFirst(uris []string, known func(uri string) bool) []string {
	var there, others []string
	for _, uri := range uris {
		if known(uri) {
			there = append(there, uri)
		} else {
			others = append(others, uri)
		}
	}
	return append(there, others...)
}
