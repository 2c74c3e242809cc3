package jwt

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configures a Validator.
type Options struct {
	// Keys has the keys of the rule's issuers. Its Use must include their URIs.
	Keys *Keys
	// Namespace is the namespace of the rule. Namespaces take turns to verify tokens.
	Namespace string
	// Now returns the current time.
	Now func() time.Time
	// RequireExpiry rejects tokens without an expiry. Kyma's gateway accepts them.
	RequireExpiry bool
}

// Validator decides on the requests of one rule. It is safe for concurrent use.
type Validator struct {
	options Options
	id      uint64
	rule    Rule
	places  []place

	headers    []string // of the places, also with dashes for underscores
	params     []string // that backends could confuse with tokens
	readsQuery bool     // whether a place is a parameter
}

// New returns an error for a rule that no token could meet, or that would allow more than it states.
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

// Check decides on a request. It may wait for keys that are being fetched, until the request's context ends, and for
// its turn. The challenge has the scheme of the request's URL if the caller has set it, and else that of the
// connection.
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

// decide reports whether the token found at a place is allowed, or why it is not valid.
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

// holds reports whether a cached decision is still valid.
func (v *Validator) holds(d decision, now time.Time) bool {
	keys := v.options.Keys.current(v.rule.Authentications[d.authentication].JWKSURI)
	return keys != nil && keys.generation == d.generation && d.problemAt(now) == ""
}

// issuersOf returns the authentications that may accept a token at its place.
func (v *Validator) issuersOf(t *token, at int) []int {
	var candidates []int
	for _, i := range v.places[at].authentications {
		if v.rule.Authentications[i].Issuer == t.claims.issuer {
			candidates = append(candidates, i)
		}
	}
	return candidates
}

// verify tries the current keys before it requests a fetch.
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

// maxVerified bounds the cached tokens. An entry takes about 200 bytes.
const maxVerified = 10_000

// tokenID identifies a token for one rule and place.
type tokenID struct {
	validator uint64
	place     int
	hash      [sha256.Size]byte
}

// decision is the cached decision about a token with a valid signature.
type decision struct {
	lifetime

	authentication int
	generation     uint64 // of the keys that verified it
	allowed        bool
}

// verifiedTokens caches decisions, the latest ones of each namespace. It is only an optimization: a namespace that
// fills it evicts others, but not those within their share.
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

// giving returns the namespace that loses an entry: itself when it has its share, and else the one that has most.
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

// problem is why a token is not valid. It is the body of the response, with Envoy's text if Envoy has one.
type problem string

const (
	badForm            problem = "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections"
	badHeaderEncoding  problem = "Jwt header is an invalid Base64url encoded"
	badHeader          problem = "Jwt header is an invalid JSON"
	badAlgorithm       problem = "Jwt header [alg] field is required and must be a string"
	unknownAlgorithm   problem = "Jwt header [alg] is not supported"
	badKeyID           problem = "Jwt header [kid] field is not a string"
	badPayloadEncoding problem = "Jwt payload is an invalid Base64url encoded"
	badPayload         problem = "Jwt payload is an invalid JSON"
	badIssuer          problem = "Jwt payload [iss] field is not a string"
	badSubject         problem = "Jwt payload [sub] field is not a string"
	badAudience        problem = "Jwt payload [aud] field is not a string or string list"
	expNoInteger       problem = "Jwt payload [exp] field is not an integer"
	expOutOfRange      problem = "Jwt payload [exp] field is not a positive 64 bit integer"
	nbfNoInteger       problem = "Jwt payload [nbf] field is not an integer"
	nbfOutOfRange      problem = "Jwt payload [nbf] field is not a positive 64 bit integer"
	badSignatureText   problem = "Jwt signature is an invalid Base64url encoded"
	unknownIssuer      problem = "Jwt issuer is not configured"
	expired            problem = "Jwt is expired"
	notYetValid        problem = "Jwt not yet valid"
	severalTokens      problem = "Found multiple Jwt tokens"
	unknownKey         problem = "Jwks doesn't have key to match kid or alg from Jwt"
	badSignature       problem = "Jwt verification fails"
	keysMissing        problem = "Jwks remote fetch is failed"

	// Envoy has no text for these.
	tooLong       problem = "Jwt is longer than 8192 bytes"
	extension     problem = "Jwt header [crit] and [b64] are not supported"
	expiryMissing problem = "Jwt payload [exp] field is required"

	// busy is not a problem of the token.
	busy problem = "Too many tokens of this namespace wait to be verified"
)

const (
	accessDenied   = "RBAC: access denied"
	malformedQuery = "The query is malformed: write % as %25 and ; as %3B"
	// maxRealmPath bounds the part of a path that a challenge repeats.
	maxRealmPath = 256
)

// Result is the decision on a request. Its zero value denies.
type Result struct {
	Allowed bool
	// Unchecked are headers of an allowed request that could be taken for a token and were not checked. They must not
	// be forwarded.
	Unchecked []string
	// Status and Body are those of the response to a denied request.
	Status int
	Body   string
	// Challenge is the value of the header WWW-Authenticate, or empty.
	Challenge string
}

// Write writes the response to a denied request.
func (r Result) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain")
	if r.Challenge != "" {
		w.Header().Set("WWW-Authenticate", r.Challenge)
	}
	if r.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, r.Body) // the client may be gone
}

func forbidden() Result { return Result{Status: http.StatusForbidden, Body: accessDenied} }

func unauthorized(request *http.Request, why problem) Result {
	return Result{
		Status:    http.StatusUnauthorized,
		Body:      string(why),
		Challenge: `Bearer realm="` + realm(request) + `", error="invalid_token"`,
	}
}

// realm returns the URL of a request without its query, which may contain a token.
func realm(request *http.Request) string {
	scheme := request.URL.Scheme
	if scheme != "http" && scheme != "https" {
		scheme = "http"
		if request.TLS != nil {
			scheme = "https"
		}
	}
	path := request.URL.EscapedPath()
	return strings.Map(quotable, scheme+"://"+request.Host+path[:min(len(path), maxRealmPath)])
}

// quotable drops characters that would end or escape a quoted string.
func quotable(r rune) rune {
	if r < '!' || r > '~' || r == '"' || r == '\\' {
		return -1
	}
	return r
}
