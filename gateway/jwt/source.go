package jwt

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/fair"
)

const (
	// refetchPause is the shortest time between two fetches that tokens cause.
	refetchPause = 10 * time.Second
	// missingFor is how long a kid that was not found causes no fetch.
	missingFor = time.Minute
	maxMissing = 64
)

// source fetches and holds the keys of one URI.
type source struct {
	uri  string
	keys *Keys
	stop context.CancelFunc // nil before it runs; guarded by Keys
	wake chan struct{}      // starts a fetch at once

	mu         sync.Mutex
	namespaces []string // whose rules refer to the URI
	set        *keySet
	loaded     time.Time     // when the set was last confirmed
	attempted  time.Time     // when the last fetch began
	failures   int           // in a row
	err        error         // of the last fetch
	fetching   chan struct{} // closed at the end of the current or next fetch; nil without one
	ended      bool
	missing    map[[sha256.Size]byte]time.Time // until when the kids with these hashes cause no fetch
}

func newSource(uri string, keys *Keys) *source {
	return &source{
		uri: uri, keys: keys,
		wake:     make(chan struct{}, 1),
		fetching: make(chan struct{}),
		missing:  map[[sha256.Size]byte]time.Time{},
	}
}

// run fetches until ctx ends: when the keys are due, after failures, and when it is woken.
func (s *source) run(ctx context.Context) {
	defer s.end()
	for ctx.Err() == nil {
		got, err := s.keys.fetch(ctx, s.uri, s.begin())
		pause := time.NewTimer(s.finish(got, err))
		select {
		case <-ctx.Done():
		case <-pause.C:
		case <-s.wake:
		}
		pause.Stop()
	}
}

// isFor sets the namespaces whose rules refer to the URI, from the next fetch on.
func (s *source) isFor(namespaces []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces = namespaces
}

// begin returns the namespaces of a fetch.
func (s *source) begin() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wake: // this fetch serves the request
	default:
	}
	if s.fetching == nil {
		s.fetching = make(chan struct{})
	}
	s.attempted = s.keys.options.Now()
	return s.namespaces
}

// finish returns the pause before the next fetch. Unchanged keys keep their generation, and a failure removes none.
func (s *source) finish(got answer, err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
	s.err = err
	if err != nil {
		s.failures++
		return retryAfter(s.failures, s.keys.random())
	}
	s.failures, s.loaded = 0, s.keys.options.Now()
	if s.set == nil || !s.set.equal(got.keys) {
		got.keys.generation = s.keys.generations.Add(1)
		s.set = got.keys
		clear(s.missing)
	}
	return refreshAfter(got.maxAge, s.keys.random())
}

// end releases waiting requests.
func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.release()
}

func (s *source) release() {
	if s.fetching != nil {
		close(s.fetching)
		s.fetching = nil
	}
}

// current returns nil before the first keys, and after a day without a response.
func (s *source) current() *keySet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable()
}

func (s *source) usable() *keySet {
	if s.set == nil || s.keys.options.Now().Sub(s.loaded) > maxStale {
		return nil
	}
	return s.set
}

// refetch returns keys other than seen, or nil. It requests a fetch for a kid that is not in seen, and waits for it.
func (s *source) refetch(ctx context.Context, seen *keySet, kid string) *keySet {
	done := s.request(seen, kid)
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil
		}
	}
	if now := s.current(); now != seen {
		return now
	}
	if done != nil {
		s.noteMissing(kid)
	}
	return nil
}

// request returns a channel that is closed when a fetch ends, or nil when a fetch would not help or is not allowed.
func (s *source) request(seen *keySet, kid string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.keys.options.Now()
	switch usable := s.usable(); {
	case s.ended, usable != seen, usable != nil && (usable.has(kid) || now.Before(s.missing[sha256.Sum256([]byte(kid))])):
		return nil
	case s.fetching != nil:
		return s.fetching
	case now.Sub(s.attempted) < refetchPause:
		return nil
	}
	s.fetching = make(chan struct{})
	select {
	case s.wake <- struct{}{}:
	default: // it is already being woken
	}
	return s.fetching
}

// noteMissing records a kid that the URI does not have, so that a client with an old token does not cause fetches
// forever.
func (s *source) noteMissing(kid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if len(s.missing) >= maxMissing {
		for oldest := range s.missing { // any one: the pause between fetches bounds them all
			delete(s.missing, oldest)
			break
		}
	}
	s.missing[sha256.Sum256([]byte(kid))] = s.keys.options.Now().Add(missingFor)
}

// State is the state of a URI's keys.
type State struct {
	URI string
	// Keys is the number of keys that can verify tokens. Without one every token is refused.
	Keys int
	// Age is the time since the URI last confirmed them.
	Age time.Duration
	// Err is why the last fetch failed, in a form that a tenant may read.
	Err error
	// Refused is why one of the keys is not used, in the same form.
	Refused error
}

func (s *source) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{URI: s.uri, Err: s.err}
	if set := s.usable(); set != nil {
		state.Keys, state.Age, state.Refused = len(set.keys), s.keys.options.Now().Sub(s.loaded), set.refused
	}
	return state
}

const (
	fetchTimeout = 5 * time.Second
	maxBody      = 1 << 20
	// smallBody is the largest response that is read without a slot. Most key sets are a tenth of it.
	smallBody  = 64 << 10
	largeSlots = 16 // a namespace has at most as many as it leaves free
	maxHeader  = 16 << 10
	maxHops    = 3
)

// The errors of fetches. They contain no part of a response, no address and no URI: tenants read them.
var (
	errSlow        = errors.New("the server did not answer in time: it has 5 seconds")
	errName        = errors.New("the host's name is not known")
	errCertificate = errors.New("the server's certificate is not trusted")
	errConnection  = errors.New("the connection failed")
	errRedirect    = errors.New("the server redirects to another host, or too often: write the URI that it redirects to")
	errLarge       = errors.New("the answer is larger than 1 MiB")
	errCrowded     = errors.New("the answer is larger than 64 KiB, and other large ones were read for all of its 5 seconds: make it smaller")
)

// answer is the result of a fetch.
type answer struct {
	keys   *keySet
	maxAge time.Duration
}

// fetcher fetches URIs that tenants configure.
type fetcher struct {
	client  *http.Client
	timeout time.Duration
	large   *fair.Pool // slots to read large responses, by namespace
}

func newFetcher(guard dialguard.Guard, roots *x509.CertPool, proxy func(*http.Request) (*url.URL, error)) *fetcher {
	transport := guard.Transport(&http.Transport{
		Proxy:                  proxy,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true, // the next fetch is minutes later
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}, fetchTimeout)
	return &fetcher{
		client:  &http.Client{Transport: transport, CheckRedirect: sameHost},
		timeout: fetchTimeout,
		large:   fair.NewPool(fair.Limits{Total: largeSlots, Waiting: 2 * maxURIs}), // all URIs of a namespace may wait
	}
}

// sameHost allows redirects within a host.
func sameHost(request *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxHops || request.URL.Scheme != first.Scheme || request.URL.Host != first.Host {
		return errRedirect
	}
	return nil
}

// fetch fetches the keys of a URI for the namespaces whose rules refer to it.
func (f *fetcher) fetch(ctx context.Context, uri string, namespaces []string) (answer, error) {
	if err := checkURI(uri); err != nil {
		return answer{}, fmt.Errorf("it is %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return answer{}, fmt.Errorf("it is %w", errURI)
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return answer{}, explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode != http.StatusOK:
		return answer{}, fmt.Errorf("the server answered %d", response.StatusCode)
	case response.ContentLength > maxBody:
		return answer{}, errLarge
	}
	keys, err := f.read(ctx, response.Body, namespaces)
	if err != nil {
		return answer{}, err
	}
	return answer{keys: keys, maxAge: maxAgeOf(response.Header)}, nil
}

// read waits for a slot when a response is large, so that many of them cannot fill the memory or delay small ones.
func (f *fetcher) read(ctx context.Context, from io.Reader, namespaces []string) (*keySet, error) {
	body, err := io.ReadAll(io.LimitReader(from, smallBody+1))
	if err != nil {
		return nil, explain(err)
	}
	if len(body) <= smallBody {
		return parseKeySet(body)
	}
	namespace := f.leastBusy(namespaces)
	if err := f.large.Acquire(ctx.Done(), namespace, 1); err != nil {
		return nil, errCrowded
	}
	defer f.large.Release(namespace, 1)
	rest, err := io.ReadAll(io.LimitReader(from, maxBody+1-int64(len(body))))
	if err != nil {
		return nil, explain(err)
	}
	if body = append(body, rest...); len(body) > maxBody {
		return nil, errLarge
	}
	return parseKeySet(body)
}

// leastBusy returns the namespace that is charged for a response, so that a namespace that refers to another's URI does
// not use the other's share.
func (f *fetcher) leastBusy(namespaces []string) string {
	if len(namespaces) == 0 {
		return ""
	}
	return slices.MinFunc(namespaces, func(a, b string) int { return cmp.Compare(f.large.Held(a), f.large.Held(b)) })
}

func explain(err error) error {
	var (
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
		timeout     net.Error
	)
	switch {
	case errors.Is(err, dialguard.ErrDenied):
		return dialguard.ErrDenied
	case errors.Is(err, errRedirect):
		return errRedirect
	case errors.As(err, &timeout) && timeout.Timeout():
		return errSlow
	case errors.As(err, &name):
		return errName
	case errors.As(err, &certificate):
		return errCertificate
	}
	return errConnection
}

const (
	// minRefresh also applies to responses without a max-age.
	minRefresh = 5 * time.Minute
	maxRefresh = 20 * time.Minute
	// maxStale is how long keys remain valid without a response.
	maxStale   = 24 * time.Hour
	minRetry   = time.Second
	maxRetry   = time.Minute
	jitterPart = 5 // pauses are up to a fifth shorter, so that replicas do not fetch at the same time
)

// refreshAfter returns the pause after a response with a max-age.
func refreshAfter(maxAge time.Duration, random float64) time.Duration {
	return withJitter(min(max(maxAge, minRefresh), maxRefresh), random)
}

// retryAfter returns the pause after a number of failures in a row.
func retryAfter(failures int, random float64) time.Duration {
	const doublings = 6 // from a second to more than a minute
	return withJitter(min(minRetry<<min(failures-1, doublings), maxRetry), random)
}

// withJitter takes a random number in [0, 1).
func withJitter(pause time.Duration, random float64) time.Duration {
	return pause - time.Duration(float64(pause/jitterPart)*random)
}

// maxAgeOf parses Cache-Control. It returns 0 without a max-age, or with no-store.
func maxAgeOf(header http.Header) time.Duration {
	age := time.Duration(0)
	for directive := range strings.SplitSeq(strings.Join(header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err == nil {
				age = time.Duration(seconds) * time.Second
			}
		}
	}
	return age
}
