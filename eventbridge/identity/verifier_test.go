package identity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeReviewer accepts tokens of the form namespace/name/anything.
type fakeReviewer struct {
	mu      sync.Mutex
	reviews int
	busy    int
	most    int
	takes   time.Duration
	err     error
	revoked bool
}

func (f *fakeReviewer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeReviewer) Review(ctx context.Context, token, audience string) (Account, error) {
	f.mu.Lock()
	f.reviews++
	f.busy++
	f.most = max(f.most, f.busy)
	takes, err, revoked := f.takes, f.err, f.revoked
	f.mu.Unlock()
	defer f.set(func() { f.busy-- })
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return Account{}, ctx.Err()
	}
	parts := strings.Split(token, "/")
	switch {
	case err != nil:
		return Account{}, err
	case len(parts) != 3 || revoked || audience != "us":
		return Account{}, ErrUnknown
	default:
		return Account{parts[0], parts[1]}, nil
	}
}

func TestATokenIsReviewedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reviewer := &fakeReviewer{takes: time.Millisecond}
		v := New(reviewer, "us")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				account, err := v.Verify(t.Context(), "shop/checkout/1")
				require.NoError(t, err)
				require.Equal(t, Account{"shop", "checkout"}, account)
			})
		}
		all.Wait()
		require.Equal(t, 1, reviewer.reviews)
		time.Sleep(freshFor)
		reviewer.set(func() { reviewer.revoked = true })
		_, err := v.Verify(t.Context(), "shop/checkout/1")
		require.ErrorIs(t, err, ErrUnknown, "a token that is over is noticed")
		_, err = v.Verify(t.Context(), "shop/checkout/1")
		require.ErrorIs(t, err, ErrUnknown)
		require.Equal(t, 2, reviewer.reviews, "a refusal is remembered, too")
	})
}

func TestWithoutATokenReviewOnlyKnownPublishersAreAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reviewer := &fakeReviewer{}
		v := New(reviewer, "us")
		_, err := v.Verify(t.Context(), "shop/checkout/1")
		require.NoError(t, err)
		reviewer.set(func() { reviewer.err = errors.New("the API server is away") })
		_, err = v.Verify(t.Context(), "shop/checkout/2")
		require.ErrorIs(t, err, ErrUndecided)
		time.Sleep(staleFor - time.Second)
		account, err := v.Verify(t.Context(), "shop/checkout/1")
		require.NoError(t, err)
		require.Equal(t, Account{"shop", "checkout"}, account)
		time.Sleep(time.Second)
		_, err = v.Verify(t.Context(), "shop/checkout/1")
		require.ErrorIs(t, err, ErrUndecided)
	})
}

func TestForgedTokensBlockNoKnownPublisher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reviewer := &fakeReviewer{}
		v := New(reviewer, "us")
		_, err := v.Verify(t.Context(), "shop/checkout/1")
		require.NoError(t, err)
		time.Sleep(freshFor)
		reviewer.set(func() { reviewer.takes = 100 * time.Millisecond })
		var all sync.WaitGroup
		for i := range 3000 {
			all.Go(func() {
				_, err := v.Verify(t.Context(), fmt.Sprintf("made-up-%d", i))
				require.Error(t, err)
			})
		}
		synctest.Wait()
		began := time.Now()
		_, err = v.Verify(t.Context(), "shop/checkout/1")
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
		all.Wait()
		require.LessOrEqual(t, reviewer.most, reviewsOfNew+reviewsOfOld)
		require.LessOrEqual(t, len(v.answers.refused), maxBad)
	})
}

// A client may be gone when its token has just come, and the next one comes with another.
func TestTokensOfDisconnectedClientsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := New(&fakeReviewer{takes: time.Second}, "us")
		gone, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 3 * maxWaiting {
			all.Go(func() {
				_, err := v.Verify(gone, fmt.Sprintf("made-up-%d", i))
				require.ErrorIs(t, err, ErrUndecided)
			})
		}
		synctest.Wait()
		leave()
		all.Wait()
		require.Len(t, v.waiting, maxWaiting)
		began := time.Now()
		_, err := v.Verify(t.Context(), "made-up")
		require.ErrorIs(t, err, ErrUndecided)
		require.Zero(t, time.Since(began), "it holds nothing any more")
		time.Sleep(2 * reviewTimeout)
		require.Empty(t, v.waiting)
		_, err = v.Verify(t.Context(), "shop/checkout/1")
		require.NoError(t, err)
	})
}

func TestANamespaceWithManyTokensForgetsItsOwn(t *testing.T) {
	t.Parallel()
	v := New(&fakeReviewer{}, "us")
	_, err := v.Verify(t.Context(), "shop/checkout/1")
	require.NoError(t, err)
	for i := range 3 * maxOfNamespace {
		_, err = v.Verify(t.Context(), fmt.Sprintf("red/default/%d", i))
		require.NoError(t, err)
	}
	require.Len(t, v.answers.accounts, 1+maxOfNamespace)
	require.Len(t, v.answers.namespaces["red"], maxOfNamespace)
	require.Len(t, v.answers.namespaces["shop"], 1)
}

func TestExpiredTokenReviewsAreEvicted(t *testing.T) {
	t.Parallel()
	a, now := newAnswers(), time.Now()
	for i := range maxGood {
		a.keep(key{byte(i), byte(i >> 8)}, Account{Namespace: strconv.Itoa(i / maxOfNamespace)}, now)
	}
	require.Len(t, a.accounts, maxGood)
	a.keep(key{0, 0, 1}, Account{Namespace: "new"}, now)
	require.Len(t, a.accounts, maxGood, "the cache is full for another namespace")
	a.keep(key{0, 0, 1}, Account{Namespace: "new"}, now.Add(staleFor))
	require.Len(t, a.accounts, 1)
	require.Len(t, a.namespaces, 1)
}

func TestInvalidTokensAreNotReviewed(t *testing.T) {
	t.Parallel()
	reviewer := &fakeReviewer{}
	for _, token := range []string{"", strings.Repeat("x", maxToken+1)} {
		_, err := New(reviewer, "us").Verify(t.Context(), token)
		require.ErrorIs(t, err, ErrUnknown)
	}
	require.Zero(t, reviewer.reviews)
}
