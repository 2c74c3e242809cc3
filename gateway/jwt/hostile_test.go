package jwt

import (
	"crypto"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// The header of a good token, to be changed.
const plainHeader = `{"alg":"EdDSA","kid":"key-1"}`

func plainPayload(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(claimsOf(nil))
	require.NoError(t, err)
	return string(text)
}

func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	key, stranger := newSigner(t, keyName), newSigner(t, keyName)
	target := newIssuer(t, stranger.public()) // where a stranger has his keys
	issuer := newIssuer(t, key.public(), jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "rsa", Algorithm: "RS256", Use: "sig"})
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	payload := plainPayload(t)
	good := key.sign(plainHeader, payload)
	require.Equal(t, allowed, v.Check(bearing(good)))

	sections := strings.Split(good, ".")
	unsigned := func(header string) string { return encode(header) + "." + encode(payload) }
	embedded, err := json.Marshal(stranger.public())
	require.NoError(t, err)
	header := func(member string) string { return `{"alg":"EdDSA","kid":"key-1",` + member + `}` }
	padding := strings.Repeat("x", maxToken)
	der := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	inPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	inJSON := `{"payload":"` + sections[1] + `","protected":"` + sections[0] + `","signature":"` + sections[2] + `"}`
	broken := sections[0] + "." + sections[1][:8] + "\n" + sections[1][8:] + "." + sections[2]
	swapped := sections[0] + "." + encode(`{"iss":"`+issuerName+`","sub":"root"}`) + "." + sections[2]
	for name, tc := range map[string]struct {
		token string
		why   problem
	}{
		"no token at all":                   {"abc", badForm},
		"three words":                       {"not.a.token", badHeader},
		"no signature":                      {sections[0] + "." + sections[1] + ".", badForm},
		"two sections":                      {sections[0] + "." + sections[1], badForm},
		"four sections":                     {good + ".x", badForm},
		"a JWE":                             {unsigned(`{"alg":"RSA-OAEP","enc":"A256GCM"}`) + ".x.y.z", badForm},
		"JSON serialization":                {inJSON, badForm},
		"alg none, unsigned":                {unsigned(`{"alg":"none"}`) + ".", badForm},
		"alg none, signed":                  {key.sign(`{"alg":"none","kid":"key-1"}`, payload), unknownAlgorithm},
		"alg None":                          {key.sign(`{"alg":"None","kid":"key-1"}`, payload), unknownAlgorithm},
		"alg in lower case":                 {key.sign(`{"alg":"eddsa","kid":"key-1"}`, payload), unknownAlgorithm},
		"alg missing":                       {key.sign(`{"kid":"key-1"}`, payload), badAlgorithm},
		"alg as a list":                     {key.sign(`{"alg":["EdDSA"],"kid":"key-1"}`, payload), badAlgorithm},
		"alg of the other key":              {key.sign(`{"alg":"RS256","kid":"key-1"}`, payload), unknownKey},
		"kid of the other key":              {key.sign(`{"alg":"EdDSA","kid":"rsa"}`, payload), unknownKey},
		"alg and kid of the other key":      {key.sign(`{"alg":"RS256","kid":"rsa"}`, payload), badSignature},
		"PS256 by a key for RS256":          {withRSA(t, jose.PS256, "rsa", payload), unknownKey},
		"HS256 by the public key as PEM":    {withSecret(t, "HS256", "rsa", payload, inPEM), unknownKey},
		"HS256 by the public key as DER":    {withSecret(t, "HS256", "rsa", payload, der), unknownKey},
		"HS256 by the modulus, no kid":      {withSecret(t, "HS256", "", payload, rsaKey().N.Bytes()), unknownKey},
		"a stranger's signature":            {stranger.sign(plainHeader, payload), badSignature},
		"a stranger's signature, no kid":    {stranger.sign(`{"alg":"EdDSA"}`, payload), badSignature},
		"a kid that is not known":           {stranger.sign(`{"alg":"EdDSA","kid":"x"}`, payload), unknownKey},
		"kid as a path":                     {stranger.sign(`{"alg":"EdDSA","kid":"../../dev/null"}`, payload), unknownKey},
		"kid as a number":                   {key.sign(`{"alg":"EdDSA","kid":1}`, payload), badKeyID},
		"kid as null":                       {key.sign(`{"alg":"EdDSA","kid":null}`, payload), badKeyID},
		"a stranger's jwk":                  {stranger.sign(header(`"jwk":`+string(embedded)), payload), badSignature},
		"a stranger's jwk without kid":      {stranger.sign(`{"alg":"EdDSA","jwk":`+string(embedded)+`}`, payload), badSignature},
		"a stranger's jku":                  {stranger.sign(header(`"jku":"`+target.URL+`"`), payload), badSignature},
		"a stranger's x5u":                  {stranger.sign(header(`"x5u":"`+target.URL+`"`), payload), badSignature},
		"a stranger's x5c":                  {stranger.sign(header(`"x5c":["AAAA"]`), payload), badSignature},
		"crit that is not known":            {key.sign(header(`"crit":["x"],"x":1`), payload), extension},
		"crit that is empty":                {key.sign(header(`"crit":[]`), payload), extension},
		"crit b64":                          {key.sign(header(`"crit":["b64"],"b64":false`), payload), extension},
		"b64 without crit":                  {key.sign(header(`"b64":false`), payload), extension},
		"alg twice":                         {key.sign(`{"alg":"none","alg":"EdDSA","kid":"key-1"}`, payload), badHeader},
		"a header that is a list":           {key.sign(`["EdDSA"]`, payload), badHeader},
		"a header with more after it":       {key.sign(plainHeader+`{}`, payload), badHeader},
		"iss twice":                         {key.sign(plainHeader, `{"iss":"x",`+payload[1:]), badPayload},
		"sub twice, written in two ways":    {key.sign(plainHeader, `{"s\u0075b":"root",`+payload[1:]), badPayload},
		"a duplicate deep within":           {key.sign(plainHeader, `{"x":{"a":1,"a":2},`+payload[1:]), badPayload},
		"a payload with more after it":      {key.sign(plainHeader, payload+payload), badPayload},
		"a payload that is no UTF-8":        {key.sign(plainHeader, "{\"x\":\"\xff\","+payload[1:]), badPayload},
		"a payload that is a list":          {key.sign(plainHeader, `[]`), badPayload},
		"a payload that is null":            {key.sign(plainHeader, `null`), unknownIssuer},
		"an issuer that is no string":       {key.sign(plainHeader, `{"iss":["`+issuerName+`"]}`), badIssuer},
		"a subject that is no string":       {key.sign(plainHeader, `{"sub":1,"iss":"`+issuerName+`"}`), badSubject},
		"an audience that is no string":     {key.sign(plainHeader, `{"aud":[1],"iss":"`+issuerName+`"}`), badAudience},
		"an audience that is an object":     {key.sign(plainHeader, `{"aud":{},"iss":"`+issuerName+`"}`), badAudience},
		"no issuer":                         {key.sign(plainHeader, `{"sub":"alice"}`), unknownIssuer},
		"the issuer with a slash":           {key.token(t, claimsOf(map[string]any{"iss": issuerName + "/"})), unknownIssuer},
		"the issuer in another case":        {key.token(t, claimsOf(map[string]any{"iss": "https://Issuer.example"})), unknownIssuer},
		"the payload of another":            {swapped, badSignature},
		"half a signature":                  {good[:len(good)-8], badSignature},
		"a longer signature":                {good + "AAAA", badSignature},
		"a signature that is no Base64url":  {good[:len(good)-1] + "!", badSignatureText},
		"padding after the signature":       {good + "==", badSignatureText},
		"a header that is no Base64url":     {"+/+/." + sections[1] + "." + sections[2], badHeaderEncoding},
		"a payload that is no Base64url":    {sections[0] + ".+/+/." + sections[2], badPayloadEncoding},
		"a line break in a section":         {broken, badPayloadEncoding},
		"8 KiB and a byte":                  {padding + "x", tooLong},
		"8 KiB of nothing":                  {padding, badForm},
		"a token that is large and genuine": {key.token(t, claimsOf(map[string]any{"x": padding})), tooLong},
	} {
		result := v.Check(bearing(tc.token))
		require.Equal(t, invalid(tc.why), result, name)
		again := v.Check(bearing(tc.token))
		require.Equal(t, result, again, "%s, the second time", name)
		for section := range strings.SplitSeq(tc.token, ".") {
			if len(section) > 8 {
				require.NotContains(t, result.Body+result.Challenge, section, name)
			}
		}
	}
	require.Zero(t, target.asked.Load(), "no key is fetched from a location in a token")
}

func TestKeyClaimsInATokenAreIgnored(t *testing.T) {
	t.Parallel()
	key, stranger := newSigner(t, keyName), newSigner(t, keyName)
	target := newIssuer(t, stranger.public())
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	for name, member := range map[string]string{
		"jwk":          `"jwk":` + string(must(json.Marshal(stranger.public()))),
		"jku":          `"jku":"` + target.URL + `"`,
		"x5u":          `"x5u":"` + target.URL + `"`,
		"x5t":          `"x5t":"AAAA"`,
		"typ at+jwt":   `"typ":"at+jwt"`,
		"typ anything": `"typ":1`,
	} {
		token := key.sign(`{"alg":"EdDSA","kid":"key-1",`+member+`}`, plainPayload(t))
		require.Equal(t, allowed, v.Check(bearing(token)), name)
	}
	require.Zero(t, target.asked.Load())
}

func TestATokenHasEightKiBAtMost(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	largest := 0
	for padding := 5500; ; padding++ {
		token := key.token(t, claimsOf(map[string]any{"x": strings.Repeat("x", padding)}))
		if len(token) > maxToken {
			require.Equal(t, invalid(tooLong), v.Check(bearing(token)))
			break
		}
		require.Equal(t, allowed, v.Check(bearing(token)))
		largest = len(token)
	}
	require.GreaterOrEqual(t, largest, maxToken-2)
}

func withRSA(t *testing.T, algorithm jose.SignatureAlgorithm, kid, payload string) string {
	t.Helper()
	return withKey(t, algorithm, jose.JSONWebKey{Key: rsaKey(), KeyID: kid}, payload)
}

func withKey(t *testing.T, algorithm jose.SignatureAlgorithm, key any, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	require.NoError(t, err)
	signed, err := signer.Sign([]byte(payload))
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

// withSecret signs as who takes a public key for a shared secret.
func withSecret(t *testing.T, algorithm, kid, payload string, secret []byte) string {
	t.Helper()
	header, err := json.Marshal(map[string]string{"alg": algorithm, "kid": kid})
	require.NoError(t, err)
	signed := encode(string(header)) + "." + encode(payload)
	mac := hmac.New(sha256.New, secret)
	_, err = mac.Write([]byte(signed))
	require.NoError(t, err)
	return signed + "." + encode(string(mac.Sum(nil)))
}

func TestAlgorithmsArePublicAndFitTheirKeys(t *testing.T) {
	t.Parallel()
	private := map[string]crypto.Signer{
		"rsa": rsaKey(), "p256": ecKey(elliptic.P256()), "p384": ecKey(elliptic.P384()), "p521": ecKey(elliptic.P521()),
		"ed": newSigner(t, "ed").key,
	}
	var public []jose.JSONWebKey
	for kid, key := range private {
		public = append(public, jose.JSONWebKey{Key: key.Public(), KeyID: kid})
	}
	issuer := newIssuer(t, public...)
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	fitting := map[jose.SignatureAlgorithm]string{
		jose.RS256: "rsa", jose.RS384: "rsa", jose.RS512: "rsa", jose.PS256: "rsa", jose.PS384: "rsa", jose.PS512: "rsa",
		jose.ES256: "p256", jose.ES384: "p384", jose.ES512: "p521", jose.EdDSA: "ed",
	}
	require.Len(t, fitting, len(algorithms))
	for algorithm, kid := range fitting {
		key := private[kid]
		token := withKey(t, algorithm, jose.JSONWebKey{Key: key, KeyID: kid}, plainPayload(t))
		require.Equal(t, allowed, v.Check(bearing(token)), algorithm)
		unnamed := withKey(t, algorithm, key, plainPayload(t))
		require.Equal(t, allowed, v.Check(bearing(unnamed)), "%s without kid", algorithm)
		for other := range private {
			if other != kid {
				token := withKey(t, algorithm, jose.JSONWebKey{Key: key, KeyID: other}, plainPayload(t))
				require.Equal(t, invalid(badSignature), v.Check(bearing(token)), "%s by the key %s", algorithm, other)
			}
		}
	}
}

// The last character of a section may have bits that decoding drops.
func TestASignatureIsOfATokensTextAndNotOfWhatItDecodesTo(t *testing.T) {
	t.Parallel()
	issuer := newIssuer(t, jose.JSONWebKey{Key: rsaKey().Public()})
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	payload := plainPayload(t)
	for len(payload)%3 != 1 {
		payload += " "
	}
	token := withRSA(t, jose.RS256, "", payload)
	require.Equal(t, allowed, v.Check(bearing(token)))
	end := strings.LastIndexByte(token, '.')
	changed := token[:end-1] + string(token[end-1]+1) + token[end:]
	require.Equal(t, invalid(badSignature), v.Check(bearing(changed)))
}

func TestKeysThatAreNotForSignaturesOrWeakAreLeftOut(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	some32 := encode(strings.Repeat("x", 32))
	text := func(key jose.JSONWebKey) string { return string(must(json.Marshal(key))) }
	with := func(member string) string {
		return `{` + member + `,` + text(jose.JSONWebKey{Key: key.key.Public()})[1:]
	}
	for name, tc := range map[string]struct {
		key  string
		kept bool
	}{
		"an ordinary one":              {text(key.public()), true},
		"without use and alg":          {text(jose.JSONWebKey{Key: key.key.Public()}), true},
		"key_ops verify":               {with(`"key_ops":["verify"]`), true},
		"certificates that are broken": {with(`"x5c":["AAAA"],"x5u":"http://169.254.169.254/","x5t":"?"`), true},
		"key_ops encrypt":              {with(`"key_ops":["encrypt"]`), false},
		"for encryption":               {with(`"use":"enc"`), false},
		"alg of another type":          {with(`"alg":"RS256"`), false},
		"alg HS256":                    {with(`"alg":"HS256"`), false},
		"alg none":                     {with(`"alg":"none"`), false},
		"a shared secret":              {text(jose.JSONWebKey{Key: []byte(strings.Repeat("x", 32))}), false},
		"a public key with a secret":   {with(`"k":"AAAA"`), false},
		"a private key":                {text(jose.JSONWebKey{Key: key.key}), false},
		"a private RSA key":            {text(jose.JSONWebKey{Key: rsaKey()}), false},
		"RSA of 2048 bits":             {text(jose.JSONWebKey{Key: rsaKey().Public()}), true},
		"RSA of 1024 bits":             {text(jose.JSONWebKey{Key: weak().Public()}), false},
		"RSA of 16384 bits":            {`{"kty":"RSA","e":"AQAB","n":"` + encode(strings.Repeat("\xff", 2048)) + `"}`, false},
		"RSA without e":                {`{"kty":"RSA","n":"` + encode(strings.Repeat("\xff", 256)) + `"}`, false},
		"P-256 by an alg for P-384":    {text(jose.JSONWebKey{Key: ecKey(elliptic.P256()).Public(), Algorithm: "ES384"}), false},
		"a curve that is not known":    {`{"kty":"EC","crv":"secp256k1","x":"AAAA","y":"AAAA"}`, false},
		"a point that is not on it":    {`{"kty":"EC","crv":"P-256","x":"` + some32 + `","y":"` + some32 + `"}`, false},
		"a type that is not known":     {`{"kty":"AKP","alg":"ML-DSA-44","pub":"AAAA"}`, false},
		"no type":                      {`{"kid":"x"}`, false},
		"kid as a number":              {with(`"kid":1`), false},
		"something that is no key":     {`"x"`, false},
	} {
		other := text(newSigner(t, "other").public())
		set, err := parseKeySet([]byte(`{"keys":[` + tc.key + `,` + other + `]}`))
		require.NoError(t, err, name)
		require.Len(t, set.keys, map[bool]int{true: 2, false: 1}[tc.kept], name)
		_, err = parseKeySet([]byte(`{"keys":[` + tc.key + `]}`))
		require.Equal(t, tc.kept, err == nil, name)
	}
}

// Many issuers of one name, and many keys of each, make one token cost as many signatures.
func TestATokenTriesTenKeysOfAllIssuersTogether(t *testing.T) {
	t.Parallel()
	const issuers, keysOfEach = 32, 10
	last := newSigner(t, "last")
	at := &clock{now: atNoon}
	keys := NewKeys(KeysOptions{Now: at.Now})
	rule := Rule{}
	for i := range issuers {
		rule.Authentications = append(rule.Authentications, Authentication{Issuer: issuerName, JWKSURI: fmt.Sprintf("http://issuer-%d/", i)})
	}
	loadAll := func(place int) { // the key of last is in this place
		for i, each := range rule.Authentications {
			set := &keySet{}
			for n := range keysOfEach {
				k := key{id: "other", public: newSigner(t, "").key.Public()}
				if i*keysOfEach+n == place {
					k = key{id: last.id, public: last.key.Public()}
				}
				set.keys = append(set.keys, k)
			}
			keys.source(each.JWKSURI).begin()
			keys.source(each.JWKSURI).finish(answer{keys: set}, nil)
		}
	}
	var uris []string
	for _, each := range rule.Authentications {
		uris = append(uris, each.JWKSURI)
	}
	keys.Use(map[string][]string{"shop": uris})
	v := validatorOf(t, keys, at, rule)
	unnamed := bearing(last.sign(`{"alg":"EdDSA"}`, plainPayload(t)))
	loadAll(maxTries - 1)
	require.Equal(t, allowed, v.Check(unnamed))
	loadAll(maxTries)
	require.Equal(t, invalid(badSignature), v.Check(unnamed))
	loadAll(issuers*keysOfEach - 1)
	require.Equal(t, allowed, v.Check(bearing(last.token(t, claimsOf(nil)))), "a key that is named is tried first, whoever's it is")
}

func TestAnotherFetchBringsATokenNoFurtherTries(t *testing.T) {
	t.Parallel()
	stranger := newSigner(t, "")
	others := func(count int) []jose.JSONWebKey {
		all := make([]jose.JSONWebKey, count)
		for i := range all {
			all[i] = newSigner(t, "").public()
		}
		return all
	}
	for place, want := range map[int]Result{0: allowed, 1: invalid(badSignature)} {
		issuer := newIssuer(t, others(maxTries-1)...)
		keys, at := keysOf(t, issuer)
		next := others(2)
		next[place] = stranger.public()
		issuer.publish(t, next...)
		at.advance(refetchPause)
		require.Equal(t, want, validatorOf(t, keys, at, ruleOf(issuer)).Check(bearing(stranger.token(t, claimsOf(nil)))), place)
	}
}

func TestKeysWithLargeExponentsAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	modulus := base64.RawURLEncoding.EncodeToString(rsaKey().N.Bytes())
	rsaWith := func(exponent ...byte) string {
		return `{"kty":"RSA","kid":"rsa","n":"` + modulus + `","e":"` + encode(string(exponent)) + `"}`
	}
	good := string(must(json.Marshal(newSigner(t, keyName).public())))
	for name, tc := range map[string]struct {
		key  string
		kept bool
	}{
		"3":                      {rsaWith(3), true},
		"65537":                  {rsaWith(1, 0, 1), true},
		"65539":                  {rsaWith(1, 0, 3), false},
		"the largest in Go":      {rsaWith(0x7f, 0xff, 0xff, 0xff), false},
		"beyond 64 bits":         {rsaWith(1, 0, 0, 0, 0, 0, 0, 0, 1), false},
		"the sign of 64 bits":    {rsaWith(0xff, 0, 0, 0, 0, 0, 0, 1), false},
		"as long as the modulus": {rsaWith(rsaKey().N.Bytes()...), false},
	} {
		set, err := parseKeySet([]byte(`{"keys":[` + tc.key + `,` + good + `]}`))
		require.NoError(t, err, name)
		if tc.kept {
			require.Len(t, set.keys, 2, name)
			require.NoError(t, set.refused, name)
			continue
		}
		require.Len(t, set.keys, 1, name)
		require.ErrorIs(t, set.refused, errExponent, name)
		_, err = parseKeySet([]byte(`{"keys":[` + tc.key + `]}`))
		require.ErrorIs(t, err, errExponent, name)
	}
}

func FuzzNoBytesPassForAToken(f *testing.F) {
	key := signer{id: keyName, key: make([]byte, 64)}
	f.Add(key.sign(plainHeader, `{"iss":"`+issuerName+`","sub":"alice"}`))
	f.Add(`..`)
	f.Add(encode(`{"alg":"none"}`) + "." + encode(`{}`) + ".")
	at := &clock{now: atNoon}
	keys := NewKeys(KeysOptions{Now: at.Now})
	uri := "http://127.0.0.1/keys"
	v, err := New(Rule{Authentications: []Authentication{{Issuer: issuerName, JWKSURI: uri}}}, Options{Keys: keys, Now: at.Now})
	require.NoError(f, err)
	keys.Use(map[string][]string{"shop": {uri}})
	other := must(parseKeySet([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)))
	keys.source(uri).begin()
	keys.source(uri).finish(answer{keys: other}, nil)
	f.Fuzz(func(t *testing.T, token string) {
		request := get("http://shop.example/")
		request.Header["Authorization"] = []string{"Bearer " + token}
		require.Equal(t, http.StatusUnauthorized, v.Check(request).Status)
	})
}
