package jwt

import (
	"context"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxTries bounds the signatures that are computed for one token, whoever's the keys are: those without a name may all be meant.
	maxTries = 10
	// turnTimeout is for how long a token may wait until it is verified.
	turnTimeout = 5 * time.Second
)

// search is for the key by which a token was signed.
type search struct {
	token *token
	tries int // that are left
	why   problem

	named, others []candidate // by whether they have the token's kid
}

// candidate is a key that may be it.
type candidate struct {
	key            *key
	authentication int
	generation     uint64
}

// add takes the keys of a set that match the token.
func (s *search) add(set *keySet, authentication int) {
	for i := range set.keys {
		k := &set.keys[i]
		if !k.matches(s.token) {
			continue
		}
		s.why = badSignature
		each := candidate{key: k, authentication: authentication, generation: set.generation}
		switch {
		case !k.fits(s.token.algorithm):
		case k.id == s.token.keyID:
			s.named = append(s.named, each)
		default:
			s.others = append(s.others, each)
		}
	}
	if s.why == keysMissing {
		s.why = unknownKey
	}
}

// try takes the candidates, as many as may be tried, each in the namespace's turn: a token that is refused costs as much as one that
// holds.
func (k *Keys) try(ctx context.Context, namespace string, s *search) (found candidate, ok bool, why problem) {
	all := slices.Concat(s.named, s.others)
	all = all[:min(len(all), s.tries)]
	s.tries -= len(all)
	s.named, s.others = nil, nil
	if len(all) == 0 {
		return candidate{}, false, s.why
	}
	signed, err := jose.ParseSignedCompact(s.token.raw, algorithms)
	if err != nil {
		return candidate{}, false, badSignature
	}
	until := time.Now().Add(turnTimeout)
	for _, each := range all {
		if !k.awaitTurn(ctx, namespace, until) {
			return candidate{}, false, busy
		}
		if k.verifies(signed, each.key, namespace) {
			return each, true, ""
		}
	}
	return candidate{}, false, s.why
}

func (k *Keys) awaitTurn(ctx context.Context, namespace string, until time.Time) bool {
	if k.turns.TryAcquire(namespace, 1) {
		return true
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return k.turns.Acquire(ctx.Done(), namespace, 1) == nil
}

// verifies ends the turn, for which the namespace is charged.
func (k *Keys) verifies(signed *jose.JSONWebSignature, by *key, namespace string) bool {
	defer k.turns.Release(namespace, 1)
	began := time.Now()
	_, err := signed.Verify(by.public)
	k.turns.Charge(namespace, int64(time.Since(began)))
	return err == nil
}
