package jwt

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"time"
)

// Options of a Validator.
type Options struct {
	// Keys has the keys of the rule's issuers. Its Use has to name their URIs.
	Keys *Keys
	// Namespace is that of the rule. Tokens are verified in turn by it.
	Namespace string
	// Now is the time.
	Now func() time.Time
	// RequireExpiry refuses tokens that do not end. Kyma's gateway accepts them.
	RequireExpiry bool
}

// Validator decides on the requests of one rule. It may be used by many at a time.
type Validator struct {
	options Options
	id      uint64
	rule    Rule
	places  []place

	headers    []string // of the places, also as those write them who have dashes for underscores
	params     []string // that backends could take for tokens
	readsQuery bool     // whether a parameter is a place
}

// New fails where a rule has what no token could meet, or what would allow more than it says.
func New(rule Rule, options Options) (*Validator, error) {
	if options.Keys == nil || options.Now == nil {
		return nil, errors.New("a Validator needs Keys and a clock")
	}
	if err := rule.check(); err != nil {
		return nil, err
	}
	v := &Validator{options: options, id: options.Keys.validators.Add(1), rule: rule, places: rule.places()}
	v.compile()
	return v, nil
}

// Check decides on a request. It may wait for keys that are being fetched, for as long as the request's context lasts, and for its turn. The
// challenge has the scheme of the request's URL where the caller has set it, and else that of the connection.
func (v *Validator) Check(request *http.Request) Result {
	found, ok := v.find(request)
	switch {
	case !ok:
		return Result{Status: http.StatusBadRequest, Body: malformedQuery}
	case found.count == 0:
		return forbidden()
	case found.count > 1 || found.others:
		return unauthorized(request, severalTokens)
	}
	allowed, why := v.decide(request.Context(), found.raw, found.at)
	switch {
	case why == busy:
		return Result{Status: http.StatusServiceUnavailable, Body: string(busy)}
	case why != "":
		return unauthorized(request, why)
	case !allowed:
		return forbidden()
	}
	return Result{Allowed: true, Unchecked: v.unchecked(request.Header, v.places[found.at].header)}
}

// decide says whether the token that was found at a place is allowed, or why it is not valid.
func (v *Validator) decide(ctx context.Context, raw string, at int) (allowed bool, why problem) {
	if len(raw) > maxToken {
		return false, tooLong
	}
	now := v.options.Now()
	id := tokenID{validator: v.id, place: at, hash: sha256.Sum256([]byte(raw))}
	if known, found := v.options.Keys.verified.get(id); found && v.holds(known, now) {
		return known.allowed, ""
	}
	t, why := parse(raw)
	if why != "" {
		return false, why
	}
	candidates := v.issuersOf(t, at)
	if len(candidates) == 0 {
		return false, unknownIssuer
	}
	if why := t.claims.problemAt(now); why != "" {
		return false, why
	}
	if v.options.RequireExpiry && t.claims.expires == never {
		return false, expiryMissing
	}
	by, why := v.verify(ctx, t, candidates)
	if why != "" {
		return false, why
	}
	d := decision{
		lifetime: t.claims.lifetime, authentication: by.authentication, generation: by.generation, allowed: v.rule.admits(&t.claims),
	}
	v.options.Keys.verified.put(v.options.Namespace, id, d)
	return d.allowed, ""
}

// holds reports whether a decision of before is one of now.
func (v *Validator) holds(d decision, now time.Time) bool {
	keys := v.options.Keys.current(v.rule.Authentications[d.authentication].JWKSURI)
	return keys != nil && keys.generation == d.generation && d.problemAt(now) == ""
}

// issuersOf lists the authentications that may accept a token at its place.
func (v *Validator) issuersOf(t *token, at int) []int {
	var candidates []int
	for _, i := range v.places[at].authentications {
		if v.rule.Authentications[i].Issuer == t.claims.issuer {
			candidates = append(candidates, i)
		}
	}
	return candidates
}

// verify asks the keys that are there before it has any fetched.
func (v *Validator) verify(ctx context.Context, t *token, candidates []int) (found candidate, why problem) {
	s := search{token: t, tries: maxTries, why: keysMissing}
	seen := make([]*keySet, len(candidates))
	for n, i := range candidates {
		seen[n] = v.options.Keys.current(v.rule.Authentications[i].JWKSURI)
		if seen[n] != nil && !slices.Contains(seen[:n], seen[n]) {
			s.add(seen[n], i)
		}
	}
	found, ok, why := v.options.Keys.try(ctx, v.options.Namespace, &s)
	for n := 0; !ok && why != busy && s.tries > 0 && n < len(candidates); n++ {
		i := candidates[n]
		newer := v.options.Keys.refetch(ctx, v.rule.Authentications[i].JWKSURI, seen[n], t.keyID)
		if newer != nil {
			s.add(newer, i)
			found, ok, why = v.options.Keys.try(ctx, v.options.Namespace, &s)
		}
	}
	if ok {
		return found, ""
	}
	return candidate{}, why
}
