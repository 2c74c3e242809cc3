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

// verifiedTokens remembers decisions, of each namespace the latest ones. It is for speed alone: who fills it makes others verify again,
// but for those of namespaces that have no more than their share.
type verifiedTokens struct {
	mu        sync.Mutex
	decisions map[tokenID]decision
	order     map[string][]tokenID // by namespace, the oldest first
	limit     int
}

func newVerifiedTokens(limit int) *verifiedTokens {
	return &verifiedTokens{decisions: map[tokenID]decision{}, order: map[string][]tokenID{}, limit: limit}
}

func (v *verifiedTokens) get(id tokenID) (decision, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d, found := v.decisions[id]
	return d, found
}

func (v *verifiedTokens) put(namespace string, id tokenID, d decision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, found := v.decisions[id]; !found {
		if len(v.decisions) == v.limit {
			v.forget(v.giving(namespace))
		}
		v.order[namespace] = append(v.order[namespace], id)
	}
	v.decisions[id] = d
}

// giving is the namespace that has one forgotten for another: itself when it has its share, and else the one that has most.
func (v *verifiedTokens) giving(namespace string) string {
	if len(v.order[namespace]) > v.limit/len(v.order) {
		return namespace
	}
	most := namespace
	for each, ids := range v.order {
		if len(ids) > len(v.order[most]) {
			most = each
		}
	}
	return most
}

// forget drops the oldest.
func (v *verifiedTokens) forget(namespace string) {
	ids := v.order[namespace]
	delete(v.decisions, ids[0])
	if v.order[namespace] = ids[1:]; len(ids) == 1 {
		delete(v.order, namespace)
	}
}
