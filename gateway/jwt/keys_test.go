package jwt

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/dialguard"
)

func TestKeysAreThereBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	require.Equal(t, []State{{URI: issuer.URL, Keys: 1}}, keys.States())
	v := validatorOf(t, keys, at, ruleOf(issuer))
	for range 3 {
		require.Equal(t, allowed, v.Check(bearing(key.token(t, claimsOf(nil)))))
	}
	require.Equal(t, int64(1), issuer.asked.Load())
	at.advance(time.Minute)
	require.Equal(t, State{URI: issuer.URL, Keys: 1, Age: time.Minute}, keys.State(issuer.URL))
}

func TestARequestWaitsForTheFirstKeys(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	publish, asked, release := *issuer.answer.Load(), make(chan struct{}), make(chan struct{})
	issuer.answers(func(w http.ResponseWriter, request *http.Request) {
		close(asked)
		<-release
		publish(w, request)
	})
	keys, at := keysOf(t)
	keys.Use(map[string][]string{"shop": {issuer.URL}})
	<-asked
	v := validatorOf(t, keys, at, ruleOf(issuer))
	request := bearing(key.token(t, claimsOf(nil)))
	gone, leave := context.WithCancel(t.Context())
	leave()
	require.Equal(t, invalid(keysMissing), v.Check(request.WithContext(gone)), "a client that has gone waits no more")
	results := make(chan Result)
	go func() { results <- v.Check(request) }()
	close(release)
	require.Equal(t, allowed, <-results)
}

func TestARotatedKeyIsFetchedByItsFirstToken(t *testing.T) {
	t.Parallel()
	old, next := newSigner(t, "old"), newSigner(t, "next")
	issuer := newIssuer(t, old.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	of := func(s signer) *http.Request { return bearing(s.token(t, claimsOf(nil))) }
	require.Equal(t, allowed, v.Check(of(old)))

	issuer.publish(t, old.public(), next.public())
	require.Equal(t, invalid(unknownKey), v.Check(of(next)), "the last fetch was less than 10 s ago")
	at.advance(refetchPause)
	require.Equal(t, allowed, v.Check(of(next)))
	require.Equal(t, allowed, v.Check(of(old)))

	issuer.publish(t, next.public())
	at.advance(refetchPause)
	require.Equal(t, invalid(unknownKey), v.Check(of(newSigner(t, "x"))))
	require.Equal(t, invalid(unknownKey), v.Check(of(old)), "a key that is withdrawn verifies nothing, not what it has verified before")
	require.Equal(t, allowed, v.Check(of(next)))
}

func TestARotatedKeyWithoutANameIsFetchedByItsFirstToken(t *testing.T) {
	t.Parallel()
	old, next := newSigner(t, ""), newSigner(t, "")
	issuer := newIssuer(t, old.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	issuer.publish(t, next.public())
	at.advance(refetchPause)
	require.Equal(t, allowed, v.Check(bearing(next.sign(`{"alg":"EdDSA"}`, plainPayload(t)))))
	require.Equal(t, invalid(badSignature), v.Check(bearing(old.sign(`{"alg":"EdDSA"}`, plainPayload(t)))))
}

func TestAThousandUnknownKeysCauseOneFetch(t *testing.T) {
	t.Parallel()
	stranger := newSigner(t, "stranger")
	issuer := newIssuer(t, newSigner(t, keyName).public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	at.advance(refetchPause)
	results := make([]Result, 1000)
	var checks sync.WaitGroup
	for i := range results {
		request := bearing(stranger.sign(`{"alg":"EdDSA","kid":"`+strconv.Itoa(i)+`"}`, plainPayload(t)))
		checks.Go(func() { results[i] = v.Check(request) })
	}
	checks.Wait()
	require.Equal(t, int64(2), issuer.asked.Load(), "the first keys, and once for all")
	for _, result := range results {
		require.Equal(t, invalid(unknownKey), result)
	}
	require.LessOrEqual(t, len(keys.source(issuer.URL).missing), maxMissing)
}

func TestFetchesByTokensAreTenSecondsApart(t *testing.T) {
	t.Parallel()
	issuer := newIssuer(t, newSigner(t, keyName).public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	for second := range 60 {
		token := newSigner(t, fmt.Sprint("kid-", second)).token(t, claimsOf(nil))
		require.Equal(t, invalid(unknownKey), v.Check(bearing(token)))
		at.advance(time.Second)
	}
	require.Equal(t, int64(6), issuer.asked.Load(), "the first keys, and after 10, 20, 30, 40 and 50 seconds")
}

func TestAKeyThatIsMissingCausesNoFetchForAMinute(t *testing.T) {
	t.Parallel()
	issuer := newIssuer(t, newSigner(t, keyName).public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	old, other := newSigner(t, "old").token(t, claimsOf(nil)), newSigner(t, "other").token(t, claimsOf(nil))
	for _, step := range []struct {
		after time.Duration
		token string
		asked int64
	}{{refetchPause, old, 2}, {refetchPause, old, 2}, {0, other, 3}, {49 * time.Second, old, 3}, {time.Second, old, 4}} {
		at.advance(step.after)
		require.Equal(t, invalid(unknownKey), v.Check(bearing(step.token)))
		require.Equal(t, step.asked, issuer.asked.Load())
	}
}

func TestAnOutageTakesNoKeysAwayForADay(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	token := bearing(key.token(t, claimsOf(map[string]any{"exp": nil})))
	require.Equal(t, allowed, v.Check(token))
	issuer.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	at.advance(maxStale)
	require.Equal(t, invalid(unknownKey), v.Check(bearing(newSigner(t, "x").token(t, claimsOf(map[string]any{"exp": nil})))))
	require.Equal(t, allowed, v.Check(token))
	state := keys.State(issuer.URL)
	require.Equal(t, 1, state.Keys)
	require.EqualError(t, state.Err, "the server answered 503")
	at.advance(time.Nanosecond)
	require.Equal(t, invalid(keysMissing), v.Check(token))
	require.Zero(t, keys.State(issuer.URL).Keys)
}

func TestKeysThatWereNeverLoadedRefuseEveryToken(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	publish := *issuer.answer.Load()
	issuer.answers(http.NotFound)
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	token := bearing(key.token(t, claimsOf(nil)))
	require.Equal(t, invalid(keysMissing), v.Check(token))
	require.EqualError(t, keys.State(issuer.URL).Err, "the server answered 404")
	issuer.answers(publish)
	at.advance(refetchPause)
	require.Equal(t, allowed, v.Check(token))
	require.NoError(t, keys.State(issuer.URL).Err)
}

func TestAServerThatDoesNotAnswerDelaysNoOther(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	good, silent := newIssuer(t, key.public()), newIssuer(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	silent.answers(func(http.ResponseWriter, *http.Request) { <-release })
	keys, at := keysOf(t)
	keys.Use(map[string][]string{"other": {silent.URL}, "shop": {good.URL}})
	v := validatorOf(t, keys, at, ruleOf(good))
	require.Equal(t, allowed, v.Check(bearing(key.token(t, claimsOf(nil)))))
	require.Zero(t, keys.State(silent.URL).Keys)
}

func TestURIsThatNoRuleNamesAreForgotten(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	token := bearing(key.token(t, claimsOf(nil)))
	require.Equal(t, allowed, v.Check(token))
	keys.Use(nil)
	require.Equal(t, invalid(keysMissing), v.Check(token))
	require.Empty(t, keys.States())
	keys.Use(map[string][]string{"shop": {issuer.URL}})
	require.Equal(t, allowed, v.Check(token), "it waits for the first keys")
	require.Equal(t, int64(2), issuer.asked.Load())
}

func TestURIsOfANamespaceAndOfAllAreBounded(t *testing.T) {
	t.Parallel()
	none := func(string) bool { return false }
	require.Len(t, admit(map[string][]string{"a": urisOf("a", 100)}, none), maxURIsPerNamespace)
	require.Len(t, admit(map[string][]string{"a": append(urisOf("a", 2), urisOf("a", 2)...)}, none), 2)

	used := func(uri string) bool { return uri == "http://a-099/" || uri == "http://z-000/" }
	require.Contains(t, admit(map[string][]string{"a": urisOf("a", 100)}, used), "http://a-099/", "those in use stay")
	many := map[string][]string{"z": urisOf("z", 1)}
	for n := range 20 {
		namespace := fmt.Sprint("n", n)
		many[namespace] = urisOf(namespace, maxURIsPerNamespace)
	}
	admitted := admit(many, used)
	require.Len(t, admitted, maxURIs)
	require.Contains(t, admitted, "http://z-000/")
	require.Equal(t, admitted, admit(many, func(uri string) bool { _, known := admitted[uri]; return known }), "nothing changes without a need")

	keys := NewKeys(KeysOptions{Now: time.Now})
	keys.Use(map[string][]string{"a": urisOf("a", 100)})
	require.ErrorIs(t, keys.State("http://a-099/").Err, ErrManyURIs)
	require.NoError(t, keys.State("http://a-000/").Err)
}

func TestURIsOfNamespacesThatSortFirstTakeNoneFromOthers(t *testing.T) {
	t.Parallel()
	wanted := map[string][]string{"zoo": urisOf("zoo", 2)}
	for n := range 40 {
		namespace := fmt.Sprintf("a-%02d", n)
		wanted[namespace] = urisOf(namespace, 100)
	}
	for name, known := range map[string]func(string) bool{
		"after a restart":           func(string) bool { return false },
		"when others had all of it": func(uri string) bool { return uri < "http://a-16" },
	} {
		admitted := admit(wanted, known)
		require.Len(t, admitted, maxURIs, name)
		for namespace, uris := range wanted {
			count := 0
			for _, uri := range uris {
				if _, has := admitted[uri]; has {
					count++
				}
			}
			require.GreaterOrEqual(t, count, min(len(uris), maxURIs/len(wanted)), "%s: %s", name, namespace)
		}
	}
}

// urisOf are some of a namespace.
func urisOf(namespace string, count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("http://%s-%03d/", namespace, i))
	}
	return all
}

func TestKeysAreFetchedFromLoopbackOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	issuer := newIssuer(t, newSigner(t, keyName).public())
	fetch := newFetcher(dialguard.Guard{}, nil, nil).fetch
	_, err := fetch(t.Context(), issuer.URL, nil)
	require.ErrorIs(t, err, dialguard.ErrDenied)
	_, err = fetch(t.Context(), "http://169.254.169.254/latest/meta-data", nil)
	require.ErrorIs(t, err, dialguard.ErrDenied)
	require.Zero(t, issuer.asked.Load())
}

func TestRunEndsWithItsFetchesAndReleasesWaitingRequests(t *testing.T) {
	t.Parallel()
	keys := NewKeys(KeysOptions{Now: time.Now})
	began := make(chan struct{})
	keys.fetch = func(ctx context.Context, _ string, _ []string) (answer, error) {
		close(began)
		<-ctx.Done()
		return answer{}, errors.New("it has ended")
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { keys.Run(ctx) })
	const uri = "http://issuer.example/keys"
	keys.Use(map[string][]string{"shop": {uri}})
	<-began
	running.Go(func() { keys.refetch(t.Context(), uri, nil, "") })
	stop()
	running.Wait()
	require.Nil(t, keys.refetch(t.Context(), uri, nil, ""))
}

func TestAURIIsFetchedForTheNamespacesThatNameIt(t *testing.T) {
	t.Parallel()
	none := func(string) bool { return false }
	require.Equal(t, map[string][]string{"http://a/": {"red", "shop"}, "http://b/": {"shop"}},
		admit(map[string][]string{"shop": {"http://b/", "http://a/", "http://a/"}, "red": {"http://a/"}}, none))
}

// BenchmarkARememberedToken is the hot path: what nearly every request costs.
func BenchmarkARememberedToken(b *testing.B) {
	key := newSigner(b, keyName)
	v := loaded(b, key.public())
	good := key.sign(plainHeader, string(must(json.Marshal(claimsOf(nil)))))
	for name, request := range map[string]*http.Request{
		"header":           bearing(good),
		"header and query": get("http://shop.example/orders?page=2&sort=name", "Authorization", "Bearer "+good),
		"query":            get("http://shop.example/orders?page=2&access_token=" + good),
	} {
		for _, header := range []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "X-Request-Id", "X-Forwarded-Host"} {
			request.Header.Set(header, "x")
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !v.Check(request).Allowed {
					b.Fatal("it is refused")
				}
			}
		})
	}
}

// BenchmarkANewToken verifies a signature each time.
func BenchmarkANewToken(b *testing.B) {
	ed := newSigner(b, keyName)
	for name, each := range map[string]struct {
		public jose.JSONWebKey
		sign   func(payload string) string
	}{
		"EdDSA": {ed.public(), func(payload string) string { return ed.sign(plainHeader, payload) }},
		"RS256": {jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "rsa"}, func(payload string) string {
			signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: rsaKey(), KeyID: "rsa"}}, nil))
			return must(must(signer.Sign([]byte(payload))).CompactSerialize())
		}},
	} {
		v := loaded(b, each.public)
		requests := make([]*http.Request, 256)
		for i := range requests {
			requests[i] = bearing(each.sign(string(must(json.Marshal(claimsOf(map[string]any{"jti": i}))))))
		}
		v.options.Keys.verified = newVerifiedTokens(1) // none is repeated at once
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !v.Check(requests[i%len(requests)]).Allowed {
					b.Fatal("it is refused")
				}
			}
		})
		b.Run(name+" on all processors", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					v.Check(requests[i%len(requests)])
				}
			})
		})
	}
}

// BenchmarkTheCostliestToken is unsigned, of 32 issuers with ten keys of 8,192 bits each.
func BenchmarkTheCostliestToken(b *testing.B) {
	at := &clock{now: atNoon}
	keys := NewKeys(KeysOptions{Now: at.Now})
	set := &keySet{}
	for range 10 {
		modulus := make([]byte, maxRSABits/8)
		_, _ = rand.Read(modulus)
		modulus[0], modulus[len(modulus)-1] = modulus[0]|0x80, modulus[len(modulus)-1]|1
		set.keys = append(set.keys, key{public: &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: maxExponent}})
	}
	rule, uris := Rule{}, []string(nil)
	for i := range maxAuthentications {
		uris = append(uris, "http://issuer.example/"+strconv.Itoa(i))
		rule.Authentications = append(rule.Authentications, Authentication{Issuer: issuerName, JWKSURI: uris[i]})
	}
	keys.Use(map[string][]string{"shop": uris})
	for _, uri := range uris {
		keys.source(uri).begin()
		keys.source(uri).finish(answer{keys: &keySet{keys: set.keys}}, nil)
	}
	v, err := New(rule, Options{Keys: keys, Now: at.Now})
	require.NoError(b, err)
	request := bearing(encode(`{"alg":"RS256"}`) + "." + encode(string(must(json.Marshal(claimsOf(nil))))) + "." + encode(string(make([]byte, maxRSABits/8))))
	for b.Loop() {
		if v.Check(request).Body != string(badSignature) {
			b.Fatal("it was not tried")
		}
	}
}

// loaded has keys that no server was asked for.
func loaded(b testing.TB, public ...jose.JSONWebKey) *Validator {
	b.Helper()
	const uri = "http://issuer.example/keys"
	at := &clock{now: atNoon}
	keys := NewKeys(KeysOptions{Now: at.Now})
	keys.Use(map[string][]string{"shop": {uri}})
	set, err := parseKeySet(must(json.Marshal(jose.JSONWebKeySet{Keys: public})))
	require.NoError(b, err)
	keys.source(uri).begin()
	keys.source(uri).finish(answer{keys: set}, nil)
	v, err := New(Rule{Authentications: []Authentication{{Issuer: issuerName, JWKSURI: uri}}}, Options{Keys: keys, Now: at.Now})
	require.NoError(b, err)
	return v
}
