package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

var (
	// ErrUnknown means that a token is missing, wrong, expired, or for another audience.
	ErrUnknown = errors.New("the token is not valid")
	// ErrUndecided means that the API server did not answer.
	ErrUndecided = errors.New("the token cannot be reviewed now")
)

// Account is a ServiceAccount.
type Account struct{ Namespace, Name string }

// Reviewer sends token reviews to the API server.
type Reviewer interface {
	// Review returns the account of a token, ErrUnknown if the token is not valid for the audience, and any other error
	// when the API server did not answer.
	Review(ctx context.Context, token, audience string) (Account, error)
}

// The bounds of a Verifier.
const (
	maxToken      = 8 << 10 // bytes
	reviewTimeout = 5 * time.Second
	reviewsOfNew  = 8 // concurrent
	reviewsOfOld  = 4 // concurrent, of tokens that were valid before

	// maxWaiting bounds the new tokens that are held, including those of clients that are gone.
	maxWaiting = 1024
)

// Verifier caches reviews of publishers' tokens. It is safe for concurrent use.
type Verifier struct {
	reviewer        Reviewer
	audience        string
	answers         *answers
	asking          singleflight.Group
	waiting         chan struct{} // slots for new tokens, including those under review
	newTokenSlots   chan struct{}
	knownTokenSlots chan struct{}
}

// New returns a Verifier for tokens of an audience.
func New(reviewer Reviewer, audience string) *Verifier {
	return &Verifier{
		reviewer: reviewer, audience: audience, answers: newAnswers(),
		waiting: make(chan struct{}, maxWaiting), newTokenSlots: make(chan struct{}, reviewsOfNew), knownTokenSlots: make(chan struct{}, reviewsOfOld),
	}
}

// Verify returns the account of a token, or fails with ErrUnknown or ErrUndecided.
func (v *Verifier) Verify(ctx context.Context, token string) (Account, error) {
	if token == "" || len(token) > maxToken {
		return Account{}, ErrUnknown
	}
	hash := sha256.Sum256([]byte(token))
	account, state := v.answers.find(hash, time.Now())
	switch state {
	case good:
		return account, nil
	case bad:
		return Account{}, ErrUnknown
	case unknown, stale:
	}
	fresh, err := v.ask(ctx, hash, token, state)
	if errors.Is(err, ErrUndecided) && state == stale {
		return account, nil
	}
	return fresh, err
}

// ask reviews the token, once for all concurrent callers with the same token.
func (v *Verifier) ask(ctx context.Context, hash [sha256.Size]byte, token string, state state) (Account, error) {
	asked := v.asking.DoChan(string(hash[:]), func() (any, error) {
		return v.review(context.WithoutCancel(ctx), hash, token, state)
	})
	select {
	case result := <-asked:
		account, _ := result.Val.(Account)
		return account, result.Err
	case <-ctx.Done():
		return Account{}, fmt.Errorf("%w: %w", ErrUndecided, ctx.Err())
	}
}

func (v *Verifier) review(ctx context.Context, hash [sha256.Size]byte, token string, state state) (Account, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	slots := v.knownTokenSlots
	if state != stale {
		slots = v.newTokenSlots
		select {
		case v.waiting <- struct{}{}:
			defer func() { <-v.waiting }()
		default:
			return Account{}, fmt.Errorf("%w: too many new tokens wait for review", ErrUndecided)
		}
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return Account{}, fmt.Errorf("%w: too many tokens are being reviewed", ErrUndecided)
	}
	account, err := v.reviewer.Review(ctx, token, v.audience)
	switch {
	case err == nil:
		v.answers.keep(hash, account, time.Now())
		return account, nil
	case errors.Is(err, ErrUnknown):
		v.answers.refuse(hash, time.Now())
		return Account{}, ErrUnknown
	default:
		return Account{}, fmt.Errorf("%w: %w", ErrUndecided, err)
	}
}

// state is the cached state of a token.
type state int

const (
	unknown state = iota
	good
	stale // valid recently
	bad
)

const (
	freshFor   = time.Minute
	staleFor   = 10 * time.Minute
	refusedFor = 10 * time.Second

	// maxGood bounds the cached valid tokens, and maxOfNamespace those of one namespace: a namespace with many tokens
	// evicts its own.
	maxGood        = 16_384
	maxOfNamespace = 256
	// maxBad bounds cached invalid tokens.
	maxBad = 1024
)

type key = [sha256.Size]byte

type answer struct {
	account  Account
	reviewed time.Time
}

// answers caches reviews by the hash of the token.
type answers struct {
	mu         sync.RWMutex
	accounts   map[key]answer
	namespaces map[string][]key // the oldest first
	refused    map[key]time.Time
}

func newAnswers() *answers {
	return &answers{accounts: map[key]answer{}, namespaces: map[string][]key{}, refused: map[key]time.Time{}}
}

func (a *answers) find(hash key, now time.Time) (Account, state) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if known, ok := a.accounts[hash]; ok {
		switch age := now.Sub(known.reviewed); {
		case age < freshFor:
			return known.account, good
		case age < staleFor:
			return known.account, stale
		}
	}
	if until, ok := a.refused[hash]; ok && now.Before(until) {
		return Account{}, bad
	}
	return Account{}, unknown
}

// keep stores a valid token.
func (a *answers) keep(hash key, account Account, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, again := a.accounts[hash]; !again {
		if len(a.accounts) >= maxGood {
			a.expire(now)
		}
		own := a.namespaces[account.Namespace]
		if len(own) >= maxOfNamespace || len(a.accounts) >= maxGood && len(own) > 0 {
			delete(a.accounts, own[0])
			own = own[1:]
		}
		if len(a.accounts) >= maxGood {
			return // it is reviewed each time
		}
		a.namespaces[account.Namespace] = append(own, hash)
	}
	a.accounts[hash] = answer{account: account, reviewed: now}
}

// refuse stores an invalid token and drops the valid entry.
func (a *answers) refuse(hash key, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was, ok := a.accounts[hash]; ok {
		was.reviewed = time.Time{} // evicted in the order of its namespace
		a.accounts[hash] = was
	}
	if len(a.refused) >= maxBad {
		clear(a.refused)
	}
	a.refused[hash] = now.Add(refusedFor)
}

// expire drops outdated entries.
func (a *answers) expire(now time.Time) {
	for namespace, keys := range a.namespaces {
		kept := keys[:0]
		for _, hash := range keys {
			if now.Sub(a.accounts[hash].reviewed) < staleFor {
				kept = append(kept, hash)
				continue
			}
			delete(a.accounts, hash)
		}
		if len(kept) == 0 {
			delete(a.namespaces, namespace)
			continue
		}
		a.namespaces[namespace] = kept
	}
}
