package jwt

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"math/big"
	"net/http"
	"strconv"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

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
		v.options.Keys.verified = newVerifiedTokens(1) // none comes twice in a row
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
