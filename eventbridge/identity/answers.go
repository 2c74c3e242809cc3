package identity

import (
	"crypto/sha256"
	"sync"
	"time"
)

// state is what is known of a token.
type state int

const (
	unknown state = iota
	good
	stale // good lately
	bad
)

const (
	freshFor   = time.Minute
	staleFor   = 10 * time.Minute
	refusedFor = 10 * time.Second

	// maxGood is how many tokens are remembered, and maxOfNamespace how many of one namespace: a namespace with many tokens
	// evicts its own.
	maxGood        = 16_384
	maxOfNamespace = 256
	// maxBad bounds tokens that were made up.
	maxBad = 1024
)

type key = [sha256.Size]byte

type answer struct {
	account  Account
	reviewed time.Time
}

// answers are remembered by the hash of the token.
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

// keep remembers a good token.
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
			return // it is asked about again each time
		}
		a.namespaces[account.Namespace] = append(own, hash)
	}
	a.accounts[hash] = answer{account: account, reviewed: now}
}

// refuse remembers one that is not good, and forgets that it was.
func (a *answers) refuse(hash key, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was, ok := a.accounts[hash]; ok {
		was.reviewed = time.Time{} // it is evicted in the order of its namespace
		a.accounts[hash] = was
	}
	if len(a.refused) >= maxBad {
		clear(a.refused)
	}
	a.refused[hash] = now.Add(refusedFor)
}

// expire forgets what is too old to be used.
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
