package jwt

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// refetchPause is at least between two fetches that tokens have caused.
	refetchPause = 10 * time.Second
	// missingFor is for how long a kid that was not found causes no fetch.
	missingFor = time.Minute
	maxMissing = 64
)

// source keeps the keys of one URI.
type source struct {
	uri  string
	keys *Keys
	stop context.CancelFunc // nil before it runs; guarded by Keys
	wake chan struct{}      // has a fetch begin at once

	mu         sync.Mutex
	namespaces []string // whose rules name the URI
	set        *keySet
	loaded     time.Time     // when the set was last confirmed
	attempted  time.Time     // when the last fetch began
	failures   int           // in a row
	err        error         // of the last fetch
	fetching   chan struct{} // closed at the end of the fetch that runs or is due; nil without one
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

// run fetches until ctx ends: when the keys are due, again after failures, and when it is woken.
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

// isFor says whose rules name the URI, from the next fetch on.
func (s *source) isFor(namespaces []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces = namespaces
}

// begin returns the namespaces that a fetch is for.
func (s *source) begin() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wake: // this is the fetch that it asks for
	default:
	}
	if s.fetching == nil {
		s.fetching = make(chan struct{})
	}
	s.attempted = s.keys.options.Now()
	return s.namespaces
}

// finish returns the pause before the next fetch. Keys that are the same keep their generation, and a failure takes none away.
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

// end has requests wait no more.
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

// current is nil before the first keys, and after a day without an answer.
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

// refetch returns keys that are not those seen, or nil. It has the URI asked for a kid that the ones seen lack, and waits.
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

// request returns the end of the fetch to wait for, or nil where none would help or may be.
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
	default: // it wakes already
	}
	return s.fetching
}

// noteMissing remembers a kid that the URI does not have, so that one client with an old token does not have it asked for ever.
func (s *source) noteMissing(kid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if len(s.missing) >= maxMissing {
		for oldest := range s.missing { // any will do: the pause between fetches holds for all
			delete(s.missing, oldest)
			break
		}
	}
	s.missing[sha256.Sum256([]byte(kid))] = s.keys.options.Now().Add(missingFor)
}

// State of a URI's keys.
type State struct {
	URI string
	// Keys is how many there are to verify tokens by. Without one every token is refused.
	Keys int
	// Age is the time since the URI last confirmed them.
	Age time.Duration
	// Err is why the last fetch failed, in words that a tenant may read.
	Err error
	// Refused is why one of the keys there is not used, in such words.
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
