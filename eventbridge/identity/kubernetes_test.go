package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

var errAway = errors.New("the API server is away")

// fakeReviews accepts tokens that consist of "of-" and the user's name. The user may list in the namespace of the same
// name.
type fakeReviews struct {
	mu             sync.Mutex
	takes          time.Duration
	err            error
	revoked        bool // all tokens
	withdrawn      bool // all rights
	tokens, rights int  // how often each was asked about
	busy, most     int
}

func (f *fakeReviews) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// work takes its time, and returns how it ends.
func (f *fakeReviews) work(ctx context.Context, counter *int) error {
	f.mu.Lock()
	*counter++
	f.busy++
	f.most = max(f.most, f.busy)
	takes, err := f.takes, f.err
	f.mu.Unlock()
	defer f.set(func() { f.busy-- })
	select {
	case <-time.After(takes):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeReviews) UserOf(ctx context.Context, token, _ string) (user authenticationv1.UserInfo, ok bool, err error) {
	if err := f.work(ctx, &f.tokens); err != nil {
		return user, false, err
	}
	name, known := strings.CutPrefix(token, "of-")
	f.mu.Lock()
	defer f.mu.Unlock()
	return authenticationv1.UserInfo{Username: name}, known && !f.revoked, nil
}

func (f *fakeReviews) Allows(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	if err := f.work(ctx, &f.rights); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return spec.ResourceAttributes.Namespace == spec.User && !f.withdrawn, nil
}

func requestOf(source, token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://admin/", http.NoBody)
	r.RemoteAddr = source + ":1234"
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// try is a request of a token for a right.
func try(k *Kubernetes, source, token string, right Right) error {
	r := requestOf(source, token)
	user, err := k.Authenticate(r)
	if err != nil {
		return err
	}
	return k.Authorize(r.Context(), user, right)
}

func TestUsersMayDoInANamespaceWhatTheAPIServerSays(t *testing.T) {
	t.Parallel()
	k := NewKubernetes(&fakeReviews{}, logr.Discard())
	require.NoError(t, try(k, "10.0.0.1", "of-shop", ListDeadLetters("shop")))
	for _, other := range []string{"bank", ""} {
		err := try(k, "10.0.0.1", "of-shop", ListDeadLetters(other))
		require.Equal(t, ForbiddenError{User: "shop", Right: ListDeadLetters(other)}, err)
	}
	for name, token := range map[string]string{"none": "", "made up": "x", "endless": "of-" + strings.Repeat("x", maxUserToken)} {
		require.ErrorIs(t, try(k, "10.0.0.1", token, ListDeadLetters("shop")), ErrUnauthenticated, name)
	}
	r := requestOf("10.0.0.1", "")
	r.Header.Set("Authorization", "Basic of-shop")
	_, err := k.Authenticate(r)
	require.ErrorIs(t, err, ErrUnauthenticated)
}

func TestAnswersAreRememberedAndRevocationsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reviews := &fakeReviews{}
		k := NewKubernetes(reviews, logr.Discard())
		for range 100 {
			require.NoError(t, try(k, "10.0.0.1", "of-shop", Purge("shop")))
		}
		require.Equal(t, []int{1, 1}, []int{reviews.tokens, reviews.rights})

		reviews.set(func() { reviews.withdrawn = true })
		time.Sleep(rightFreshFor + time.Millisecond)
		require.ErrorAs(t, try(k, "10.0.0.1", "of-shop", Purge("shop")), new(ForbiddenError))
		reviews.set(func() { reviews.withdrawn = false })
		time.Sleep(deniedFor + time.Millisecond)
		require.NoError(t, try(k, "10.0.0.1", "of-shop", Purge("shop")), "what was granted counts soon")

		reviews.set(func() { reviews.revoked = true })
		time.Sleep(rightFreshFor + time.Millisecond)
		for range 100 {
			require.ErrorIs(t, try(k, "10.0.0.1", "of-shop", Purge("shop")), ErrUnauthenticated)
		}
		require.Equal(t, 3, reviews.tokens, "a refusal is remembered, too")
		reviews.set(func() { reviews.revoked = false })
		time.Sleep(rightRefusedFor + time.Millisecond)
		require.NoError(t, try(k, "10.0.0.1", "of-shop", Purge("shop")))
	})
}

func TestNothingIsAllowedWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{Verbosity: 10})
		reviews := &fakeReviews{}
		k := NewKubernetes(reviews, log)
		require.NoError(t, try(k, "10.0.0.1", "of-shop", Purge("shop")))
		reviews.set(func() { reviews.err = errAway })
		require.NoError(t, try(k, "10.0.0.1", "of-shop", Purge("shop")), "half a minute at most")
		require.ErrorIs(t, try(k, "10.0.0.1", "of-shop", ListDeadLetters("shop")), ErrRightUndecided, "another right")
		require.ErrorIs(t, try(k, "10.0.0.1", "of-bank", Purge("bank")), ErrRightUndecided, "another user")
		time.Sleep(rightFreshFor + time.Millisecond)
		require.ErrorIs(t, try(k, "10.0.0.1", "of-shop", Purge("shop")), ErrRightUndecided)

		reviews.set(func() { reviews.err, reviews.takes = nil, time.Hour })
		began := time.Now()
		require.ErrorIs(t, try(k, "10.0.0.1", "of-shop", Purge("shop")), ErrRightUndecided, "it does not answer")
		require.Equal(t, rightReviewTimeout, time.Since(began))
		reviews.set(func() { reviews.takes = 0 })
		require.NoError(t, try(k, "10.0.0.1", "of-shop", Purge("shop")))

		require.Contains(t, logged.String(), errAway.Error())
		require.Equal(t, 2, strings.Count(logged.String(), "cannot review the rights"), "a caller must not write as many log lines as it likes")
		require.NotContains(t, logged.String(), "of-shop")
	})
}

func TestAFloodOfForgedTokensIsBoundedAndHoldsUpNoKnownUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reviews := &fakeReviews{}
		k := NewKubernetes(reviews, logr.Discard())
		require.NoError(t, try(k, "10.0.0.1", "of-shop", ListDeadLetters("shop")))
		time.Sleep(rightFreshFor + time.Millisecond)
		reviews.set(func() { reviews.takes, reviews.tokens = 100*time.Millisecond, 0 })
		flood := func(sources, each int) {
			var all sync.WaitGroup
			for source := range sources {
				for i := range each {
					all.Go(func() {
						err := try(k, fmt.Sprintf("10.1.%d.%d", source/256, source%256), fmt.Sprintf("forged-%d-%d", source, i), Purge("shop"))
						require.Error(t, err)
						require.NotErrorIs(t, err, ErrRightUndecided)
					})
				}
			}
			synctest.Wait()
			began := time.Now()
			require.NoError(t, try(k, "10.0.0.1", "of-shop", ListDeadLetters("shop")))
			require.LessOrEqual(t, time.Since(began), 200*time.Millisecond)
			all.Wait()
			time.Sleep(rightFreshFor + time.Millisecond)
		}
		flood(1, 1000)
		require.Equal(t, newTokensAtOnce+1, reviews.tokens, "one source, and the known user")
		flood(100, 10)
		require.LessOrEqual(t, reviews.most, tokensOfNew+tokensOfOld+rightsAtAll)
		require.LessOrEqual(t, len(k.refused.entries.Keys()), maxRefused)
	})
}

func TestAUserWhoAsksAboutManyNamespacesIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reviews := &fakeReviews{}
		k := NewKubernetes(reviews, logr.Discard())
		busy := 0
		for i := range 1000 {
			token := fmt.Sprintf("of-system:serviceaccount:evil:a%d", i%3)
			if err := try(k, "10.0.0.1", token, Purge(fmt.Sprintf("n%d", i))); errors.Is(err, ErrBusy) {
				busy++
			}
		}
		require.Equal(t, rightsAtOnce, reviews.rights)
		require.Equal(t, 1000-rightsAtOnce, busy)
		require.NoError(t, try(k, "10.0.0.1", "of-shop", Purge("shop")), "others have their own share")
	})
}

func TestCachedReviewsAreBounded(t *testing.T) {
	t.Parallel()
	m := remember[int, int](10)
	for i := range 100 {
		m.add(i, i, time.Minute)
	}
	require.Len(t, m.entries.Keys(), 10)
	l := newLimits(1, 1)
	for i := range 2 * maxLimiters {
		require.True(t, l.allow(strconv.Itoa(i)))
	}
	require.Len(t, l.known.entries.Keys(), maxLimiters)
}

func TestALocalTokenIsTakenFromThisMachineAlone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		source, given string
		token         Token
		ok            bool
	}{
		{"127.0.0.1", "horse", "horse", true},
		{"[::1]", "horse", "horse", true},
		{"[::ffff:127.0.0.1]", "horse", "horse", true},
		{"10.0.0.1", "horse", "horse", false},
		{"nowhere", "horse", "horse", false},
		{"127.0.0.1", "wrong", "horse", false},
		{"127.0.0.1", "", "", false},
	} {
		user, err := tc.token.Authenticate(requestOf(tc.source, tc.given))
		require.Equal(t, tc.ok, err == nil, "%+v", tc)
		if !tc.ok {
			require.ErrorIs(t, err, ErrUnauthenticated)
			continue
		}
		require.NoError(t, tc.token.Authorize(t.Context(), user, Purge("")))
	}
}
