package jwt

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCacheControlIsReadForMaxAge(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"":                                     0,
		"public":                               0,
		"max-age=600":                          10 * time.Minute,
		"public, Max-Age=600, must-revalidate": 10 * time.Minute,
		`max-age="600"`:                        10 * time.Minute,
		"s-maxage=600":                         0,
		"max-age=600, no-store":                0,
		"no-cache, max-age=600":                0,
		"max-age=-1":                           0,
		"max-age=99999999999999999999":         0,
		"max-age":                              0,
	} {
		require.Equal(t, want, maxAgeOf(http.Header{"Cache-Control": {value}}), value)
	}
	require.Equal(t, time.Minute, maxAgeOf(http.Header{"Cache-Control": {"public", "max-age=60"}}))
}

func TestRefreshesAreFiveToTwentyMinutesApart(t *testing.T) {
	t.Parallel()
	for maxAge, want := range map[time.Duration]time.Duration{
		0: 5 * time.Minute, time.Minute: 5 * time.Minute, 10 * time.Minute: 10 * time.Minute, 1 << 62: 20 * time.Minute,
	} {
		require.Equal(t, want, refreshAfter(maxAge, 0))
		require.Equal(t, want*9/10, refreshAfter(maxAge, 0.5), "replicas do not come at the same time")
	}
}

func TestRetriesAreASecondToAMinuteApart(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 8: time.Minute, 1 << 40: time.Minute,
	} {
		require.Equal(t, want, retryAfter(failures, 0))
		require.Equal(t, want*9/10, retryAfter(failures, 0.5))
	}
}

// script is a server whose answers are what the test says, with the times at which it was asked.
type script struct {
	began time.Time

	mu     sync.Mutex
	answer answer
	err    error
	asked  []time.Duration
}

func (s *script) fetch(context.Context, string, []string) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Since(s.began))
	return s.answer, s.err
}

func (s *script) answers(got answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.err = got, err
}

// scripted runs Keys on the bubble's clock.
func scripted(t *testing.T, s *script) *Keys {
	t.Helper()
	s.began = time.Now()
	keys := NewKeys(KeysOptions{Now: time.Now})
	keys.random = func() float64 { return 0 }
	keys.fetch = s.fetch
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keys.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	keys.Use(map[string][]string{"shop": {scriptedURI}})
	synctest.Wait()
	return keys
}

const scriptedURI = "http://issuer.example/keys"

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestKeysAreRefreshedWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: answer{keys: must(parseKeySet(setOf(t, 1))), maxAge: 10 * time.Minute}}
		keys := scripted(t, s)
		first := keys.current(scriptedURI).generation
		pass(35 * time.Minute)
		require.Equal(t, []time.Duration{0, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}, s.asked)
		require.Equal(t, first, keys.current(scriptedURI).generation, "the same keys")
		require.Equal(t, 5*time.Minute, keys.State(scriptedURI).Age)

		s.answers(answer{keys: must(parseKeySet(setOf(t, 2)))}, nil)
		pass(5 * time.Minute)
		require.Greater(t, keys.current(scriptedURI).generation, first, "other keys")
		require.Equal(t, 2, keys.State(scriptedURI).Keys)
	})
}

func TestFailuresAreRetriedAndKeepTheKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{err: errors.New("it is down")}
		keys := scripted(t, s)
		pass(4 * time.Second)
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second}, s.asked)
		require.Nil(t, keys.current(scriptedURI))

		published := answer{keys: must(parseKeySet(setOf(t, 1)))}
		s.answers(published, nil)
		pass(3 * time.Second)
		require.NotNil(t, keys.current(scriptedURI))

		s.answers(answer{}, errors.New("it is down again"))
		pass(maxStale)
		require.NotNil(t, keys.current(scriptedURI))
		pass(time.Minute)
		require.Nil(t, keys.current(scriptedURI))
		require.EqualError(t, keys.State(scriptedURI).Err, "it is down again")
		last := s.asked[len(s.asked)-2:]
		require.Equal(t, maxRetry, last[1]-last[0])

		s.answers(published, nil)
		pass(time.Minute)
		require.NotNil(t, keys.current(scriptedURI))
		require.NoError(t, keys.State(scriptedURI).Err)
	})
}

func TestAFetchByATokenIsNotRepeatedByTheTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: answer{keys: must(parseKeySet(setOf(t, 1)))}}
		keys := scripted(t, s)
		pass(4 * time.Minute)
		require.Nil(t, keys.refetch(t.Context(), scriptedURI, keys.current(scriptedURI), "unknown"))
		pass(8 * time.Minute)
		require.Equal(t, []time.Duration{0, 4 * time.Minute, 9 * time.Minute}, s.asked)
	})
}

func TestAURIThatIsDroppedIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{err: errors.New("it is down")}
		keys := scripted(t, s)
		keys.Use(nil)
		pass(time.Hour)
		require.Len(t, s.asked, 1)
	})
}
