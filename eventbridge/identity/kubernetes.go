package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/rouse-run/rouse/internal/daemon"
)

// Reviews sends reviews to the API server. An error means that it did not answer.
type Reviews interface {
	// UserOf returns the user of a token for an audience or, if that is empty, for the API server itself.
	UserOf(ctx context.Context, token, audience string) (user authenticationv1.UserInfo, ok bool, err error)
	// Allows reports whether a user may do something.
	Allows(ctx context.Context, review authorizationv1.SubjectAccessReviewSpec) (bool, error)
}

// The bounds of reviews.
const (
	maxUserToken       = 8 << 10 // bytes
	rightReviewTimeout = 5 * time.Second
	slotWait           = 5 * time.Second

	tokensOfNew = 4 // concurrent
	tokensOfOld = 4 // concurrent, of tokens that were valid recently
	rightsAtAll = 8 // concurrent

	newTokensPerSecond rate.Limit = 5 // per source
	newTokensAtOnce               = 20
	rightsPerSecond    rate.Limit = 10 // per user
	rightsAtOnce                  = 50

	logEvery = 10 * time.Second
)

// Kubernetes is the Access of a cluster. It is safe for concurrent use.
type Kubernetes struct {
	reviews Reviews
	log     logr.Logger
	logged  rate.Sometimes

	users     memory[hash, reviewed]
	refused   memory[hash, struct{}]
	decisions memory[question, bool]

	sources, askers                *limits
	newTokens, oldTokens, ofRights chan struct{}
}

// NewKubernetes returns an Access of a cluster.
func NewKubernetes(reviews Reviews, log logr.Logger) *Kubernetes {
	return &Kubernetes{
		reviews: reviews, log: log, logged: rate.Sometimes{Interval: logEvery},
		users: remember[hash, reviewed](maxUsers), refused: remember[hash, struct{}](maxRefused),
		decisions: remember[question, bool](maxDecisions),
		sources:   newLimits(newTokensPerSecond, newTokensAtOnce), askers: newLimits(rightsPerSecond, rightsAtOnce),
		newTokens: make(chan struct{}, tokensOfNew), oldTokens: make(chan struct{}, tokensOfOld), ofRights: make(chan struct{}, rightsAtAll),
	}
}

// Authenticate implements Access.
func (k *Kubernetes) Authenticate(r *http.Request) (User, error) {
	token, ok := daemon.Bearer(r)
	if !ok || len(token) > maxUserToken {
		return User{}, ErrUnauthenticated
	}
	key := sha256.Sum256([]byte(token))
	entry, known := k.users.get(key)
	if known && entry.isFresh() {
		return entry.user, nil
	}
	if _, refused := k.refused.get(key); refused {
		return User{}, ErrUnauthenticated
	}
	slots := k.oldTokens
	if !known {
		slots = k.newTokens
		if !k.sources.allow(sourceOf(r)) {
			return User{}, ErrBusy
		}
	}
	leave, err := enter(r.Context(), slots)
	if err != nil {
		return User{}, err
	}
	defer leave()
	if entry, known = k.users.get(key); known && entry.isFresh() {
		return entry.user, nil // reviewed by a concurrent request meanwhile
	}
	return k.review(r.Context(), key, token)
}

func (k *Kubernetes) review(ctx context.Context, key hash, token string) (User, error) {
	ctx, cancel := context.WithTimeout(ctx, rightReviewTimeout)
	defer cancel()
	info, ok, err := k.reviews.UserOf(ctx, token, audienceOf(token))
	switch {
	case err != nil:
		return User{}, k.undecided(ctx, err)
	case !ok || info.Username == "":
		k.users.remove(key)
		k.refused.add(key, struct{}{}, rightRefusedFor)
		return User{}, ErrUnauthenticated
	}
	user := User{Name: info.Username, info: info, token: key}
	k.users.add(key, reviewed{user, time.Now()}, knownFor)
	return user, nil
}

// Authorize implements Access.
func (k *Kubernetes) Authorize(ctx context.Context, user User, right Right) error {
	asked := question{user.token, right}
	refusal := ForbiddenError{User: user.Name, Right: right}
	if allowed, known := k.decisions.get(asked); known {
		return refusedUnless(allowed, refusal)
	}
	if !k.askers.allow(ownerOf(user.Name)) {
		return ErrBusy
	}
	leave, err := enter(ctx, k.ofRights)
	if err != nil {
		return err
	}
	defer leave()
	if allowed, known := k.decisions.get(asked); known {
		return refusedUnless(allowed, refusal)
	}
	ctx, cancel := context.WithTimeout(ctx, rightReviewTimeout)
	defer cancel()
	allowed, err := k.reviews.Allows(ctx, right.review(user.info))
	if err != nil {
		return k.undecided(ctx, err)
	}
	lasts := deniedFor
	if allowed {
		lasts = rightFreshFor
	}
	k.decisions.add(asked, allowed, lasts)
	return refusedUnless(allowed, refusal)
}

func refusedUnless(allowed bool, refusal ForbiddenError) error {
	if allowed {
		return nil
	}
	return refusal
}

// enter waits for a slot, which leave frees.
func enter(ctx context.Context, slots chan struct{}) (leave func(), err error) {
	timeout := time.NewTimer(slotWait)
	defer timeout.Stop()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-timeout.C:
		return nil, ErrBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// undecided logs the cause at most now and then, because anyone can cause failing reviews while the API server is
// unavailable.
func (k *Kubernetes) undecided(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.Canceled) { // otherwise the client is gone
		k.logged.Do(func() { k.log.Error(err, "cannot review the rights of a user of the admin API") })
	}
	return ErrRightUndecided
}

// Audience is the audience for tokens of the admin API. Such a token is useless elsewhere in the cluster if it leaks.
const Audience = "rouse-admin"

// audienceOf returns the audience for which a token is to be reviewed: Audience if the token claims it, else the API
// server's, as in kubeconfigs. The review verifies the claim.
func audienceOf(token string) string {
	parts := strings.Split(token, ".")
	const ofJWT = 3
	if len(parts) != ofJWT {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Audiences audiences `json:"aud"`
	}
	if json.Unmarshal(payload, &claims) != nil || !slices.Contains(claims.Audiences, Audience) {
		return ""
	}
	return Audience
}

// audiences is one string or a list of strings.
type audiences []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a)) //nolint:wrapcheck // an unreadable token is not a failure
}
