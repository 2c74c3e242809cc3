package jwt

import (
	"crypto/sha256"
	"sync"
)

// maxVerified bounds the tokens that are remembered. An entry has about 200 bytes.
const maxVerified = 10_000

// tokenID is a token as one rule sees it, in one place.
type tokenID struct {
	validator uint64
	place     int
	hash      [sha256.Size]byte
}

// decision is what was found out about a token whose signature was right.
type decision struct {
	lifetime

	authentication int
	generation     uint64 // of the keys that verified it
	allowed        bool
}

// verifiedTokens remembers decisions, the latest ones. It is for speed alone: who fills it makes others verify again.
type verifiedTokens struct {
	mu        sync.Mutex
	decisions map[tokenID]decision
	order     []tokenID // a ring, in which next is the oldest when it is full
	next      int
	limit     int
}

func newVerifiedTokens(limit int) *verifiedTokens {
	return &verifiedTokens{decisions: map[tokenID]decision{}, limit: limit}
}

func (v *verifiedTokens) get(id tokenID) (decision, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d, found := v.decisions[id]
	return d, found
}

func (v *verifiedTokens) put(id tokenID, d decision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, found := v.decisions[id]; !found {
		v.evictFor(id)
	}
	v.decisions[id] = d
}

// evictFor adds id to the ring, in place of the oldest where the ring is full.
func (v *verifiedTokens) evictFor(id tokenID) {
	if len(v.order) < v.limit {
		v.order = append(v.order, id)
		return
	}
	delete(v.decisions, v.order[v.next])
	v.order[v.next] = id
	v.next = (v.next + 1) % v.limit
}
