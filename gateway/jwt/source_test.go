package jwt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// shop is who fetches are for.
var shop = []string{"shop"}

func localFetcher() *fetcher { return newFetcher(dialguard.Guard{AllowLoopback: true}, nil, nil) }

func setOf(t *testing.T, count int) []byte {
	t.Helper()
	var set jose.JSONWebKeySet
	for i := range count {
		set.Keys = append(set.Keys, newSigner(t, fmt.Sprint("key-", i)).public())
	}
	return must(json.Marshal(set))
}

func TestAnswersThatAreNoKeySetsAreFailures(t *testing.T) {
	t.Parallel()
	elsewhere := newIssuer(t, newSigner(t, keyName).public())
	good, weakKey := setOf(t, 1), string(must(json.Marshal(jose.JSONWebKey{Key: weak().Public()})))
	writes := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	redirects := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, request *http.Request) { http.Redirect(w, request, to, http.StatusFound) }
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    error
	}{
		"a page for people":            {writes("<!DOCTYPE html><html>secret</html>"), errNoKeySet},
		"nothing":                      {writes(""), errNoKeySet},
		"no keys":                      {writes(`{"issuer":"https://issuer.example"}`), errNoKeySet},
		"keys that are null":           {writes(`{"keys":null}`), errNoKeySet},
		"keys that are an object":      {writes(`{"keys":{}}`), errNoKeySet},
		"keys twice":                   {writes(`{"keys":[],` + string(good[1:])), errNoKeySet},
		"more after the keys":          {writes(string(good) + "x"), errNoKeySet},
		"an empty list":                {writes(`{"keys":[]}`), errNoKeys},
		"a weak key alone":             {writes(`{"keys":[` + weakKey + `]}`), errNoKeys},
		"101 keys":                     {writes(string(setOf(t, 101))), errManyKeys},
		"100 MiB":                      {endless, errLarge},
		"100 MiB as announced":         {saysItIsLarge, errLarge},
		"a byte more than 1 MiB":       {writes(string(good) + strings.Repeat(" ", maxBody+1-len(good))), errLarge},
		"a redirect to another host":   {redirects(elsewhere.URL), errRedirect},
		"a redirect to another scheme": {func(w http.ResponseWriter, r *http.Request) { redirects("https://"+r.Host)(w, r) }, errRedirect},
		"a redirect to metadata":       {redirects("http://169.254.169.254/"), errRedirect},
		"a redirect to a file":         {redirects("file:///etc/passwd"), errRedirect},
		"redirects without end":        {redirects("/again"), errRedirect},
		"headers that are too large":   {largeHeader, errConnection},
		"half an answer":               {halfAnswer, errConnection},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tc.handler)
			t.Cleanup(server.Close)
			_, err := localFetcher().fetch(t.Context(), server.URL, shop)
			require.ErrorIs(t, err, tc.want)
		})
	}
	t.Cleanup(func() { require.Zero(t, elsewhere.asked.Load()) })
}

func endless(w http.ResponseWriter, _ *http.Request) {
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range 100 {
		if _, err := w.Write(spaces); err != nil {
			return
		}
	}
}

func largeHeader(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X", strings.Repeat("x", 1<<20))
}

func saysItIsLarge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "104857600")
}

func halfAnswer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = w.Write([]byte(`{"keys":`))
}

func TestAnswersWithinTheBoundsAreRead(t *testing.T) {
	t.Parallel()
	good := setOf(t, maxKeys)
	for name, handler := range map[string]http.HandlerFunc{
		"100 keys": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(good) },
		"1 MiB": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(append(bytes.Repeat([]byte(" "), maxBody-len(good)), good...))
		},
		"a redirect within the host": func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path == "/" {
				http.Redirect(w, request, "/keys", http.StatusFound)
				return
			}
			_, _ = w.Write(good)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			got, err := localFetcher().fetch(t.Context(), server.URL+"/", shop)
			require.NoError(t, err)
			require.Len(t, got.keys.keys, maxKeys)
		})
	}
}

func TestServersThatAreSlowAreFailures(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"before their answer": "", "within it": `{"keys":[`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				if text != "" {
					_, _ = w.Write([]byte(text))
					_ = http.NewResponseController(w).Flush()
				}
				<-request.Context().Done()
			}))
			t.Cleanup(server.Close)
			f := localFetcher()
			f.timeout = 100 * time.Millisecond
			_, err := f.fetch(t.Context(), server.URL, shop)
			require.ErrorIs(t, err, errSlow)
		})
	}
}

func TestLargeKeySetsOfANamespaceLeaveSlotsToOthersAndToSmallOnes(t *testing.T) {
	t.Parallel()
	good := setOf(t, 1)
	hanging := make(chan struct{}, maxURIsPerNamespace)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/small" {
			_, _ = w.Write(bytes.Repeat([]byte(" "), smallBody+1))
		}
		if request.URL.Path == "/hanging" {
			_ = http.NewResponseController(w).Flush()
			hanging <- struct{}{}
			<-request.Context().Done()
			return
		}
		_, _ = w.Write(good)
	}))
	t.Cleanup(server.Close)
	f := localFetcher()
	f.timeout = 30 * time.Second
	ctx, stop := context.WithCancel(t.Context())
	var fetches sync.WaitGroup
	for range maxURIsPerNamespace {
		fetches.Go(func() { _, _ = f.fetch(ctx, server.URL+"/hanging", []string{"red"}) })
	}
	for range maxURIsPerNamespace {
		<-hanging
	}
	waits := func(count int64) func() bool {
		return func() bool { _, waiting := f.large.Stats(); return waiting == count }
	}
	require.Eventually(t, waits(maxURIsPerNamespace-largeSlots/2), 20*time.Second, time.Millisecond)
	_, err := f.fetch(t.Context(), server.URL+"/large", shop)
	require.NoError(t, err, "another namespace finds a slot")
	_, err = f.fetch(t.Context(), server.URL+"/large", []string{"red", "shop"})
	require.NoError(t, err, "who names another's URI costs it nothing")
	_, err = f.fetch(t.Context(), server.URL+"/small", []string{"red"})
	require.NoError(t, err)
	fetches.Go(func() { _, err = f.fetch(ctx, server.URL+"/large", []string{"red"}) })
	require.Eventually(t, waits(maxURIsPerNamespace-largeSlots/2+1), 20*time.Second, time.Millisecond)
	stop()
	fetches.Wait()
	require.ErrorIs(t, err, errCrowded)
	used, waiting := f.large.Stats()
	require.Zero(t, used+waiting, "the slots are free again")
}

func TestFailuresNameNoAddressAndNothingOfAURI(t *testing.T) {
	t.Parallel()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	nobody := fmt.Sprintf("127.0.0.1:%d", loopback.Reserve(t))
	for name, tc := range map[string]struct {
		uri  string
		want error
	}{
		"no server":                 {"http://" + nobody + "/?hidden", errConnection},
		"an untrusted certificate":  {untrusted.URL + "/hidden", errCertificate},
		"user and password":         {"http://user:hidden@issuer.example/", errURI},
		"a path alone":              {"/hidden", errURI},
		"another scheme":            {"file:///hidden", errURI},
		"an invalid URI":            {"http://hidden\x00/", errURI},
		"a URI of more than 2 KiB":  {"http://issuer.example/hidden" + strings.Repeat("x", maxURI), errURI},
		"an address that is denied": {"http://169.254.169.254/hidden", dialguard.ErrDenied},
	} {
		_, err := localFetcher().fetch(t.Context(), tc.uri, shop)
		require.ErrorIs(t, err, tc.want, name)
		require.NotContains(t, err.Error(), "hidden", name)
		require.NotContains(t, err.Error(), "127.0.0.1", name)
	}
	require.Equal(t, errName, explain(&net.DNSError{Err: "no such host", Name: "hidden", IsNotFound: true}))
	require.Equal(t, errSlow, explain(&net.DNSError{Err: "i/o timeout", Name: "hidden", IsTimeout: true}))
}

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

// script is a server that sends the responses of a test, and records when it was called.
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

func TestADroppedURIIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{err: errors.New("it is down")}
		keys := scripted(t, s)
		keys.Use(nil)
		pass(time.Hour)
		require.Len(t, s.asked, 1)
	})
}
