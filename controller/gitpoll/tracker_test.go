package gitpoll

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/internal/testing/gittest"
)

func function(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// running starts a tracker of real repositories.
func running(t *testing.T, interval time.Duration) *Tracker {
	t.Helper()
	lister, err := git.New(git.Options{Guard: dialguard.Guard{AllowLoopback: true}})
	require.NoError(t, err)
	tracker := NewTracker(lister, prometheus.NewRegistry(), Options{CheckInterval: interval})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tracker.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return tracker
}

func awaitNews(t *testing.T, tracker *Tracker) types.NamespacedName {
	t.Helper()
	select {
	case news := <-tracker.Events():
		return client.ObjectKeyFromObject(news.Object)
	case <-t.Context().Done():
		require.FailNow(t, "no news came")
		return types.NamespacedName{}
	}
}

func TestAMovedBranchRequeuesItsFunctionsAndChecksAreShared(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	first := repository.Commit(t, "main", map[string]string{"a": "1"})
	repository.Tag(t, "v1", "main")
	server := repository.HTTP(t, "", "")
	const interval = time.Second
	started := time.Now()
	tracker := running(t, interval)

	want := map[types.NamespacedName]Want{}
	for i := range 20 {
		reference := "main"
		if i%2 == 1 {
			reference = "v1"
		}
		want[function(strconv.Itoa(i))] = Want{URL: server.Address(), Reference: reference}
	}
	for name, w := range want {
		_, known := tracker.Commit(name, w)
		require.False(t, known)
	}
	woken := map[types.NamespacedName]bool{}
	for range want {
		woken[awaitNews(t, tracker)] = true
	}
	require.Len(t, woken, len(want))
	intervals := int64(time.Since(started) / nextCheck(interval, attempts{}, 1))
	require.LessOrEqual(t, server.Requests(), 2+intervals, "twenty Functions must share one request, and at most one more for those that arrived during it")

	second := repository.Commit(t, "main", map[string]string{"a": "2"})
	for range 10 {
		name := awaitNews(t, tracker)
		require.Equal(t, "main", want[name].Reference, "a tag that stays is no news")
		found, known := tracker.Commit(name, want[name])
		require.True(t, known)
		require.Equal(t, Finding{Commit: second}, found)
	}
	found, _ := tracker.Commit(function("1"), want[function("1")])
	require.Equal(t, Finding{Commit: first}, found)
}

func TestARepositoryErrorRequeuesOnceAndSoDoesItsEnd(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	repository.Commit(t, "main", map[string]string{"a": "1"})
	server := repository.HTTP(t, "", "")
	tracker := running(t, 100*time.Millisecond)
	want := Want{URL: server.Address(), Reference: "release"}
	tracker.Commit(function("a"), want)
	awaitNews(t, tracker)
	found, known := tracker.Commit(function("a"), want)
	require.True(t, known)
	require.ErrorContains(t, found.Err, `no branch or tag "release"`)

	commit := repository.Commit(t, "release", map[string]string{"a": "2"})
	for found.Err != nil { // the list of branches in the text may have changed first
		awaitNews(t, tracker)
		found, _ = tracker.Commit(function("a"), want)
	}
	require.Equal(t, commit, found.Commit)
}

func TestACommitAsReferenceNeedsNoRequest(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(nil, prometheus.NewRegistry(), DefaultOptions())
	reference := strings.Repeat("a", 40)
	found, known := tracker.Commit(function("a"), Want{URL: "https://example.org/shop.git", Reference: reference})
	require.True(t, known)
	require.Equal(t, Finding{Commit: reference}, found)
	require.Zero(t, followed(tracker))
}

// counter is a Lister that records its calls.
type counter struct {
	mu    sync.Mutex
	times []time.Time
	err   error
}

func (c *counter) List(context.Context, git.Repository, ...string) (git.References, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, time.Now())
	return git.References{}, c.err
}

func (c *counter) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.times)
}

// slow is a Lister that takes a second, and records its concurrent calls.
type slow struct {
	counter

	asking, most int // guarded by mu
}

func (s *slow) List(ctx context.Context, repository git.Repository, references ...string) (git.References, error) {
	s.enter(1)
	defer s.enter(-1)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return s.counter.List(ctx, repository, references...)
}

func (s *slow) enter(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking += count
	s.most = max(s.most, s.asking)
}

func (s *slow) sideBySide() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func followed(tracker *Tracker) int {
	tracker.mu.Lock()
	defer tracker.mu.Unlock()
	return len(tracker.repositories)
}

// alone runs a tracker in a synctest bubble, and receives its events.
func alone(t *testing.T, lister Lister) *Tracker {
	t.Helper()
	tracker := NewTracker(lister, prometheus.NewRegistry(), DefaultOptions())
	go func() {
		if err := tracker.Start(t.Context()); err != nil {
			panic(err)
		}
	}()
	go func() {
		for {
			select {
			case <-tracker.Events():
			case <-t.Context().Done():
				return
			}
		}
	}()
	return tracker
}

func TestARepositoryIsPolledOncePerInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &counter{}
		tracker := alone(t, lister)
		tracker.Commit(function("a"), Want{URL: "u", Reference: "main"})
		time.Sleep(10 * time.Minute)
		require.InDelta(t, 23, lister.asked(), 2.1)
		lister.mu.Lock()
		defer lister.mu.Unlock()
		for i := 1; i < len(lister.times); i++ {
			require.InDelta(t, 27, lister.times[i].Sub(lister.times[i-1]).Seconds(), 3.1)
		}
	})
}

func TestAFailingRepositoryIsPolledWithBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &counter{err: &git.Error{Kind: git.Authentication, Message: "no"}}
		tracker := alone(t, lister)
		tracker.Commit(function("a"), Want{URL: "u", Reference: "main"})
		time.Sleep(2 * time.Hour)
		require.InDelta(t, 17, lister.asked(), 3)
	})
}

func TestAStartingRepositoryIsRetriedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &counter{err: &git.Error{Kind: git.Unreachable, Message: "connection refused"}}
		tracker := alone(t, lister)
		tracker.Commit(function("a"), Want{URL: "u", Reference: "main"})
		time.Sleep(8 * time.Second)
		lister.mu.Lock()
		defer lister.mu.Unlock()
		require.GreaterOrEqual(t, len(lister.times), 4)
		for i, want := range []float64{1, 2, 4} {
			require.InDelta(t, want, lister.times[i+1].Sub(lister.times[i]).Seconds(), want*jitter)
		}
	})
}

func TestChangedNonceTriggersACheckAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &counter{}
		tracker := alone(t, lister)
		for i, nonce := range []string{"", "1", "1", "2"} {
			tracker.Commit(function("a"), Want{URL: "u", Reference: "main", Nonce: nonce})
			synctest.Wait()
			require.Equal(t, []int{1, 2, 2, 3}[i], lister.asked(), "nonce %q", nonce)
			time.Sleep(leastAsked)
		}
	})
}

func TestRequestedGitChecksAreRateLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &counter{}
		tracker := alone(t, lister)
		for i := range 1000 {
			name := function(strconv.Itoa(i % 10))
			tracker.Commit(name, Want{URL: "u", Reference: "main", Nonce: strconv.Itoa(i)})
			time.Sleep(100 * time.Millisecond)
			if i%7 == 0 {
				tracker.Forget(name) // new Functions must not bypass the limit
			}
		}
		require.InDelta(t, 100, lister.asked(), 2, "a new Function gets its result within leastPause")
		lister.mu.Lock()
		defer lister.mu.Unlock()
		for i := 1; i < len(lister.times); i++ {
			require.GreaterOrEqual(t, lister.times[i].Sub(lister.times[i-1]), leastPause)
		}
	})
}

func TestARepositoryWithoutFunctionsIsNotChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &counter{}
		tracker := alone(t, lister)
		tracker.Commit(function("a"), Want{URL: "u", Reference: "main"})
		synctest.Wait()
		tracker.Forget(function("a"))
		tracker.Forget(function("a"))
		time.Sleep(time.Hour)
		require.Equal(t, 1, lister.asked())
		require.Zero(t, followed(tracker))
	})
}

func TestRepositoryNeverHasTwoConcurrentRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &slow{}
		tracker := alone(t, lister)
		for i := range 30 {
			name := function(strconv.Itoa(i % 3))
			tracker.Commit(name, Want{URL: "u", Reference: "branch" + strconv.Itoa(i), Nonce: strconv.Itoa(i)})
			time.Sleep(300 * time.Millisecond)
			if i%2 == 0 {
				tracker.Forget(name)
			}
		}
		require.Equal(t, 1, lister.sideBySide())
		require.Greater(t, lister.asked(), 5)
		for i := range 3 {
			tracker.Forget(function(strconv.Itoa(i)))
		}
		time.Sleep(time.Minute)
		require.Zero(t, followed(tracker))
	})
}

// silent is a Lister that responds in time only for the repository of the honest namespace.
type silent struct {
	slow

	of     time.Duration
	answer atomic.Int64 // when the honest repository was requested
}

func (s *silent) List(ctx context.Context, repository git.Repository, _ ...string) (git.References, error) {
	if repository.URL == "honest" {
		s.answer.CompareAndSwap(0, time.Now().UnixNano())
		return git.References{}, nil
	}
	s.enter(1)
	defer s.enter(-1)
	select {
	case <-time.After(s.of):
		return git.References{}, nil
	case <-ctx.Done():
		return git.References{}, &git.Error{Kind: git.Unreachable, Message: "the time is up"}
	}
}

// first returns how long the honest Function waits for its first commit.
func (s *silent) first(t *testing.T, began time.Time) time.Duration {
	t.Helper()
	time.Sleep(6 * checkTimeout)
	require.NotZero(t, s.answer.Load())
	return time.Unix(0, s.answer.Load()).Sub(began)
}

func TestASlowServerDelaysNoFirstCommitOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]time.Duration{
		"that answers after 29 s": 29 * time.Second, "that answers in time": checkTimeout - 100*time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lister := &silent{of: of}
				tracker := alone(t, lister)
				for i := range 500 {
					tracker.Commit(function(strconv.Itoa(i)), Want{URL: strconv.Itoa(i), Reference: "main"})
				}
				time.Sleep(time.Minute)
				began := time.Now()
				tracker.Commit(types.NamespacedName{Namespace: "quiet", Name: "a"}, Want{URL: "honest", Reference: "main"})
				require.Zero(t, lister.first(t, began))
				require.Equal(t, maxChecks/2, lister.sideBySide(), "the other half is left free")
			})
		})
	}
}

func TestSlowServersOfManyNamespacesDelayAFirstCommitByOneRoundAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &silent{of: 29 * time.Second}
		tracker := alone(t, lister)
		for i := range 1000 {
			name := types.NamespacedName{Namespace: fmt.Sprint("hostile-", i%100), Name: strconv.Itoa(i)}
			tracker.Commit(name, Want{URL: strconv.Itoa(i), Reference: "main"})
		}
		time.Sleep(time.Minute)
		began := time.Now()
		tracker.Commit(types.NamespacedName{Namespace: "quiet", Name: "a"}, Want{URL: "honest", Reference: "main"})
		require.LessOrEqual(t, lister.first(t, began), (100/maxChecks+1)*checkTimeout)
		require.LessOrEqual(t, lister.sideBySide(), maxChecks)
	})
}

// A namespace without a free slot must not delay others that follow the same repository.
func TestASharedRepositoryIsCheckedByTheFirstNamespaceWithASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &silent{of: 29 * time.Second}
		tracker := alone(t, lister)
		for i := range 500 {
			tracker.Commit(function(strconv.Itoa(i)), Want{URL: strconv.Itoa(i), Reference: "main"})
		}
		time.Sleep(time.Second)
		began := time.Now()
		tracker.Commit(function("same"), Want{URL: "honest", Reference: "main"})
		tracker.Commit(types.NamespacedName{Namespace: "quiet", Name: "a"}, Want{URL: "honest", Reference: "main"})
		require.Zero(t, lister.first(t, began))
	})
}

func TestAServerThatHangsDelaysNoRealRepositoryOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	commit := repository.Commit(t, "main", map[string]string{"a": "1"})
	honest := Want{URL: repository.HTTP(t, "", "").Address(), Reference: "main"}
	var ended atomic.Int64
	release, asked := make(chan struct{}), make(chan struct{}, 1000)
	hostile := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		asked <- struct{}{}
		select {
		case <-release:
		case <-request.Context().Done():
			ended.Add(1)
		}
	}))
	t.Cleanup(hostile.Close)
	t.Cleanup(func() { close(release) })
	tracker := running(t, time.Hour)
	for i := range 100 {
		tracker.Commit(function(strconv.Itoa(i)), Want{URL: hostile.URL + "/" + strconv.Itoa(i) + ".git", Reference: "main"})
	}
	for range maxChecks / 2 {
		<-asked
	}
	quiet := types.NamespacedName{Namespace: "quiet", Name: "a"}
	tracker.Commit(quiet, honest)
	for awaitNews(t, tracker) != quiet { // on a machine so slow that its own check takes this long, some of the others may have ended
	}
	found, known := tracker.Commit(quiet, honest)
	require.True(t, known)
	require.Equal(t, Finding{Commit: commit}, found)
	require.LessOrEqual(t, ended.Load(), int64(maxChecks), "it did not wait for the hundred")
}

func TestASlowRepositoryTakesABoundedShareOfTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &silent{of: 5 * time.Second}
		tracker := alone(t, lister)
		tracker.Commit(function("a"), Want{URL: "u", Reference: "main"})
		time.Sleep(time.Hour)
		tracker.mu.Lock()
		defer tracker.mu.Unlock()
		for _, repository := range tracker.repositories {
			require.Greater(t, repository.last.slow, 10)
			require.GreaterOrEqual(t, repository.due.Sub(repository.started), 120*time.Second)
		}
	})
}

func TestCredentialsOfSeveralRepositoriesAreTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := alone(t, &counter{})
		for _, name := range []string{"a", "b"} {
			private, err := git.ParseSecret(git.AuthBasic, "", map[string][]byte{"username": []byte("a"), "password": []byte("b")})
			require.NoError(t, err)
			tracker.Commit(function(name), Want{URL: name, Reference: "main", Credentials: private})
		}
		held := func() (total int, kinds int) {
			tracker.mu.Lock()
			defer tracker.mu.Unlock()
			for _, held := range tracker.credentials {
				total += held.to
			}
			return total, len(tracker.credentials)
		}
		total, kinds := held()
		require.Equal(t, []int{2, 1}, []int{total, kinds}, "a key is decrypted for both")
		tracker.Forget(function("a"))
		tracker.Forget(function("b"))
		time.Sleep(time.Minute)
		total, _ = held()
		require.Zero(t, total)
	})
}

func TestAReferenceThatChangesIsUnknownUntilItIsChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := alone(t, &counter{})
		tracker.Commit(function("a"), Want{URL: "u", Reference: "main"})
		synctest.Wait()
		found, known := tracker.Commit(function("a"), Want{URL: "u", Reference: "main"})
		require.True(t, known)
		require.ErrorContains(t, found.Err, `"main"`)
		_, known = tracker.Commit(function("a"), Want{URL: "u", Reference: "release"})
		require.False(t, known, "the known commit belongs to another branch")
		time.Sleep(leastPause)
		synctest.Wait()
		found, known = tracker.Commit(function("a"), Want{URL: "u", Reference: "release"})
		require.True(t, known)
		require.ErrorContains(t, found.Err, `"release"`)
	})
}

func TestOtherCredentialsArePolledSeparately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lister := &counter{}
		tracker := alone(t, lister)
		other, err := git.ParseSecret(git.AuthBasic, "", map[string][]byte{"username": []byte("a"), "password": []byte("b")})
		require.NoError(t, err)
		tracker.Commit(function("a"), Want{URL: "u", Reference: "main"})
		tracker.Commit(function("b"), Want{URL: "u", Reference: "main", Credentials: other})
		synctest.Wait()
		require.Equal(t, 2, lister.asked())
	})
}

func TestTheNextCheckIsJitteredAndBacksOff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last   attempts
		random float64
		want   time.Duration
	}{
		"usually":                    {attempts{}, 0.5, 27 * time.Second},
		"at the earliest":            {attempts{}, 1, 24 * time.Second},
		"at the latest":              {attempts{}, 0, 30 * time.Second},
		"after a refusal":            {attempts{failures: 1}, 0, time.Minute},
		"after several refusals":     {attempts{failures: 3}, 0, 4 * time.Minute},
		"after many refusals":        {attempts{failures: 1000}, 0, 10 * time.Minute},
		"without an answer":          {attempts{failures: 1, transient: true}, 0, time.Second},
		"without an answer again":    {attempts{failures: 4, transient: true}, 0, 8 * time.Second},
		"without an answer for long": {attempts{failures: 1000, transient: true}, 0, 10 * time.Minute},
		"of a server that times out": {attempts{failures: 1, transient: true, took: 30 * time.Second}, 0, 30 * time.Second},
		"after a slow answer":        {attempts{slow: 1, took: 5 * time.Second}, 0, time.Minute},
		"after several slow answers": {attempts{slow: 2, took: 5 * time.Second}, 0, 2 * time.Minute},
		"after many slow answers":    {attempts{slow: 1000, took: 5 * time.Second}, 0, 150 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, nextCheck(30*time.Second, tc.last, tc.random))
		})
	}
}
