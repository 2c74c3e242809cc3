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
	// maxURIs bounds the fetches at a time, and the memory for their answers.
	maxURIs = 512
	// maxURIsPerNamespace leaves the others theirs.
	maxURIsPerNamespace = 32
	// maxTurns bounds the tokens that wait to be verified. One namespace has no more of them than it leaves free.
	maxTurns = 4096
)

// ErrManyURIs means that a URI is not fetched.
var ErrManyURIs = errors.New("it is not fetched: rules name more URIs than 32 of a namespace or 512 in all")

// KeysOptions are those of Keys.
type KeysOptions struct {
	// Guard decides which addresses may be asked. Its zero value refuses those of this machine.
	Guard dialguard.Guard
	// RootCAs are trusted; nil means those of the system.
	RootCAs *x509.CertPool
	// Now is the time.
	Now func() time.Time
}

// Keys has the keys of all URIs in use, and the tokens that they have verified.
type Keys struct {
	options  KeysOptions
	fetch    func(ctx context.Context, uri string, namespaces []string) (answer, error)
	random   func() float64
	verified *verifiedTokens
	turns    *fair.Pool    // of processors that verify, by namespace
	changed  chan struct{} // has Run look for sources that do not run yet

	validators, generations atomic.Uint64

	mu      sync.RWMutex
	sources map[string]*source
}

// NewKeys asks URIs through the proxy of the environment, if it names one.
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

// Use has the keys of all URIs fetched that the rules of each namespace name, and drops those of others. Call it before such a
// rule has requests: its tokens are refused until then.
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

// Run fetches until ctx ends, and returns when no fetch runs any more. What is there is used on.
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

// start runs each new source on its own, so that none waits for another.
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

// States lists the URIs that are fetched.
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

// State of one URI. That of a URI which is not fetched has ErrManyURIs.
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

// current are the keys of a URI, or nil.
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

// turnsFor leaves a processor to requests that have a token which is known, or need none. One namespace may use all the others while no
// other one waits.
func turnsFor(processors int) fair.Limits {
	total := int64(max(processors-1, 1))
	return fair.Limits{Total: total, PerKey: total, Waiting: maxTurns}
}

// admit picks the URIs that are fetched, with the namespaces that name them. Namespaces take turns: each has its first one before any has a second. Within a turn, and of one
// namespace, those come first that are known, so that no further one takes the place of one in use.
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

// knownFirst keeps the order otherwise.
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
