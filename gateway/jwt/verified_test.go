package jwt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAVerifiedTokenIsNotVerifiedAgain(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	token := bearing(key.token(t, claimsOf(nil)))
	require.Equal(t, allowed, v.Check(token))
	require.Len(t, keys.verified.decisions, 1)
	for id, d := range keys.verified.decisions { // a decision that no verification would make
		d.allowed = false
		keys.verified.put("", id, d)
	}
	require.Equal(t, denied, v.Check(token))
	inQuery := get("http://shop.example/orders?access_token=" + key.token(t, claimsOf(nil)))
	require.Equal(t, allowed, v.Check(inQuery), "in another place it is another decision")
}

func TestAVerifiedTokenEndsAtItsExpiry(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	token := bearing(key.token(t, claimsOf(nil)))
	require.Equal(t, allowed, v.Check(token))
	at.advance(time.Hour + skew*time.Second)
	require.Equal(t, allowed, v.Check(token))
	at.advance(time.Second)
	require.Equal(t, invalid(expired), v.Check(token))
}

func TestADecisionIsForOneRule(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	token := bearing(key.token(t, claimsOf(map[string]any{"scope": "read"})))
	open := validatorOf(t, keys, at, ruleOf(issuer))
	narrow := validatorOf(t, keys, at, ruleOf(issuer, Authorization{RequiredScopes: []string{"write"}}))
	other := validatorOf(t, keys, at, Rule{Authentications: []Authentication{{Issuer: "other", JWKSURI: issuer.URL}}})
	for range 2 {
		require.Equal(t, allowed, open.Check(token))
		require.Equal(t, denied, narrow.Check(token))
		require.Equal(t, invalid(unknownIssuer), other.Check(token))
	}
}

func TestTokensThatAreNotValidAreNotRemembered(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	require.Equal(t, invalid(badSignature), v.Check(bearing(newSigner(t, keyName).token(t, claimsOf(nil)))))
	require.Empty(t, keys.verified.decisions)
}

func TestVerifiedTokensAreBounded(t *testing.T) {
	t.Parallel()
	v := newVerifiedTokens(3)
	for n := range uint64(10) {
		v.put("shop", tokenID{validator: n}, decision{generation: n})
		v.put("shop", tokenID{validator: n}, decision{generation: n + 100})
	}
	require.Len(t, v.decisions, 3)
	for n := range uint64(10) {
		d, found := v.get(tokenID{validator: n})
		require.Equal(t, n >= 7, found, "the latest stay")
		if found {
			require.Equal(t, n+100, d.generation)
		}
	}
}

func TestANamespaceWithManyVerifiedTokensForgetsItsOwn(t *testing.T) {
	t.Parallel()
	const limit = 12
	v := newVerifiedTokens(limit)
	has := map[string]func() int{}
	next := uint64(0)
	verify := func(namespace string, count int) {
		first := next
		for range count {
			next++
			v.put(namespace, tokenID{validator: next}, decision{})
		}
		has[namespace] = func() int {
			remembered := 0
			for n := first + 1; n <= first+uint64(count); n++ {
				if _, found := v.get(tokenID{validator: n}); found {
					remembered++
				}
			}
			return remembered
		}
	}
	verify("flooded", 100)
	require.Equal(t, limit, has["flooded"](), "one alone has all of it")
	verify("quiet", 2)
	verify("busy", 100)
	require.Equal(t, 2, has["quiet"]())
	require.Equal(t, limit, has["quiet"]()+has["busy"]()+has["flooded"]())
	require.GreaterOrEqual(t, has["flooded"](), limit/3)
	verify("flooded", 100)
	require.Equal(t, 2, has["quiet"]())
	require.GreaterOrEqual(t, has["busy"](), limit/3)
	require.Len(t, v.decisions, limit)
}
