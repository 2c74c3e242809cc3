package jwt

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/fair"
)

func TestTokensAreFoundInThePlacesOfTheirIssuerAlone(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	good, bad := key.token(t, claimsOf(nil)), "no-token"
	bearer, basic := []string{"Authorization", "Bearer " + good}, []string{"Authorization", "Basic YTpi"}
	joined := []string{"Authorization", "Bearer " + good + ", Bearer " + good}
	const shop = "http://shop.example/orders"
	usual := Authentication{Issuer: issuerName, JWKSURI: issuer.URL}
	header, param, both, scheme := usual, usual, usual, usual
	scheme.FromHeaders = []FromHeader{{Name: "authorization", Prefix: "jwt "}}
	header.FromHeaders = []FromHeader{{Name: "x-jwt", Prefix: "JwtToken "}}
	param.FromParams = []string{"token"}
	both.FromHeaders, both.FromParams = []FromHeader{{Name: "x-jwt"}}, []string{"token"}
	other := Authentication{Issuer: "https://other.example", JWKSURI: issuer.URL, FromHeaders: []FromHeader{{Name: "x-other"}}}
	for name, tc := range map[string]struct {
		of      Authentication
		target  string
		headers []string
		want    Result
	}{
		"no token":                                 {usual, shop, nil, denied},
		"the header Authorization":                 {usual, shop, bearer, allowed},
		"spaces after the scheme":                  {usual, shop, []string{"Authorization", "Bearer   " + good + " "}, allowed},
		"the query parameter access_token":         {usual, shop + "?a=b&access_token=" + good, nil, allowed},
		"another scheme":                           {usual, shop, basic, denied},
		"the scheme in lower case":                 {usual, shop, []string{"Authorization", "bearer " + good}, allowed},
		"a tab after the scheme":                   {usual, shop, []string{"Authorization", "Bearer\t" + good}, allowed},
		"a bad token after the scheme in lower":    {usual, shop, []string{"Authorization", "bearer " + bad}, invalid(badForm)},
		"the scheme alone":                         {usual, shop, []string{"Authorization", "Bearer"}, denied},
		"another word that begins so":              {usual, shop, []string{"Authorization", "Bearers " + good}, denied},
		"a bad token next to a good one":           {usual, shop + "?access_token=" + bad, bearer, invalid(severalTokens)},
		"the same token twice":                     {usual, shop + "?access_token=" + good, bearer, invalid(severalTokens)},
		"two headers":                              {usual, shop, append(bearer, bearer...), invalid(severalTokens)},
		"two parameters":                           {usual, shop + "?access_token=" + good + "&access_token=" + bad, nil, invalid(severalTokens)},
		"two tokens in one header":                 {usual, shop, joined, invalid(badForm)},
		"an empty parameter":                       {usual, shop + "?access_token=", nil, invalid(badForm)},
		"a named header with its prefix":           {header, shop, []string{"X-Jwt", "JwtToken " + good}, allowed},
		"a named header without its prefix":        {header, shop, []string{"X-Jwt", good}, denied},
		"a named header with part of its prefix":   {header, shop, []string{"X-Jwt", "JwtToken" + good}, denied},
		"a named header with the prefix elsewhere": {header, shop, []string{"X-Jwt", "a JwtToken " + good}, denied},
		"Authorization where a header is named":    {header, shop, bearer, denied},
		"access_token where a header is named":     {header, shop + "?access_token=" + good, nil, denied},
		"a named parameter":                        {param, shop + "?token=" + good, nil, allowed},
		"access_token where a parameter is named":  {param, shop + "?access_token=" + good, nil, denied},
		"Authorization where a parameter is named": {param, shop, bearer, denied},
		"a header and a parameter, the header":     {both, shop, []string{"X-Jwt", good}, allowed},
		"a header and a parameter, the parameter":  {both, shop + "?token=" + good, nil, allowed},
		"a header and a parameter, both":           {both, shop + "?token=" + good, []string{"X-Jwt", good}, invalid(severalTokens)},
		"the place of another issuer":              {usual, shop, []string{"X-Other", good}, invalid(unknownIssuer)},
		"the prefix in another case":               {header, shop, []string{"X-Jwt", "jwttoken " + good}, denied},
		"a named scheme in another case":           {scheme, shop, []string{"Authorization", "JWT " + good}, allowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := validatorOf(t, keys, at, Rule{Authentications: []Authentication{tc.of, other}})
			require.Equal(t, tc.want, v.Check(get(tc.target, tc.headers...)))
		})
	}
}

// A forged token next to a valid one is found by some backends, wherever it is.
func TestATokenBesideTheOneThatIsCheckedIsRefusedOrTakenAway(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	good := key.token(t, claimsOf(nil))
	const shop = "http://shop.example/orders"
	query := shop + "?access_token=" + good
	bearer := []string{"Authorization", "Bearer " + good}
	second := func(value string) []string { return append([]string{"Authorization", value}, bearer...) }
	usual := Authentication{Issuer: issuerName, JWKSURI: issuer.URL}
	header, param, both, underscore := usual, usual, usual, usual
	header.FromHeaders = []FromHeader{{Name: "X-Jwt"}}
	param.FromParams = []string{"token"}
	both.FromHeaders, both.FromParams = []FromHeader{{Name: "X-Jwt", Prefix: "JWT "}}, []string{"token"}
	underscore.FromHeaders = []FromHeader{{Name: "x_jwt"}}
	named := []string{"X-Jwt", good}
	without := func(names ...string) Result { return Result{Allowed: true, Unchecked: names} }
	several, malformed := invalid(severalTokens), Result{Status: http.StatusBadRequest, Body: malformedQuery}
	for name, tc := range map[string]struct {
		of      Authentication
		target  string
		headers []string
		want    Result
	}{
		"a scheme in lower case before":               {usual, shop, second("bearer forged"), several},
		"a scheme in lower case after":                {usual, shop, append(bearer, "Authorization", "bearer forged"), several},
		"a tab after the scheme before":               {usual, shop, second("Bearer\tforged"), several},
		"another scheme before":                       {usual, shop, second("Basic YTpi"), several},
		"an empty header before":                      {usual, shop, second(""), several},
		"a named header twice":                        {header, shop, append(named, named...), several},
		"a header next to the parameter":              {usual, query, []string{"Authorization", "Bearer forged"}, several},
		"one in lower case next to the parameter":     {usual, query, []string{"Authorization", "bearer forged"}, several},
		"one with a tab next to the parameter":        {usual, query, []string{"Authorization", "Bearer\tforged"}, several},
		"another scheme next to the parameter":        {usual, query, []string{"Authorization", "JWT forged"}, without("Authorization")},
		"no scheme next to the parameter":             {usual, query, []string{"Authorization", "forged"}, without("Authorization")},
		"a space of Latin-1 next to the parameter":    {usual, query, []string{"Authorization", "Bearer\xa0forged"}, without("Authorization")},
		"a parameter before a semicolon":              {usual, shop + "?access_token=forged;x&access_token=" + good, nil, malformed},
		"a parameter after a semicolon":               {usual, shop + "?x;access_token=forged", bearer, malformed},
		"a parameter with a bad escape":               {usual, shop + "?access_token=forged%zz&access_token=" + good, nil, malformed},
		"a bad escape elsewhere":                      {usual, shop + "?x=%&access_token=" + good, nil, malformed},
		"a bad escape without any token":              {usual, shop + "?x=%", nil, malformed},
		"an escaped name":                             {usual, shop + "?access%5Ftoken=forged&access_token=" + good, nil, several},
		"an escaped name next to the header":          {usual, shop + "?%61ccess_token=forged", bearer, several},
		"a name in another case":                      {usual, shop + "?Access_Token=forged", bearer, several},
		"a name with a dot for an underscore":         {usual, shop + "?access.token=forged", bearer, several},
		"a name with a space for an underscore":       {usual, shop + "?access+token=forged", bearer, several},
		"a name with a space before it":               {usual, shop + "?+access_token=forged", bearer, several},
		"a name with a bracket for an underscore":     {usual, shop + "?access[token=forged", bearer, several},
		"a name of a list":                            {usual, shop + "?access_token[]=forged&access_token=" + good, nil, several},
		"a name of an object":                         {usual, shop + "?access_token%5Ba%5D=forged", bearer, several},
		"a name that ends at NUL":                     {usual, shop + "?access_token%00=forged", bearer, several},
		"a name without a value":                      {usual, shop + "?access_token", bearer, several},
		"a name like another one and no token":        {usual, shop + "?Access_Token=" + good, nil, denied},
		"names that are longer":                       {usual, shop + "?access_tokens=1&my_access_token=2&access_token_type=3", bearer, allowed},
		"a named header where another one was found":  {both, shop + "?token=" + good, []string{"X-Jwt", "forged"}, without("X-Jwt")},
		"a bearer token where a header is named":      {header, shop, append([]string{"Authorization", "bearer forged"}, named...), without("Authorization")},
		"a password where a header is named":          {header, shop, append([]string{"Authorization", "Basic YTpi"}, named...), allowed},
		"access_token where a header is named":        {header, shop + "?access_token=forged", named, several},
		"access_token after a semicolon there":        {header, shop + "?x;access_token=forged", named, several},
		"a bad escape where a header is named":        {header, shop + "?x=%", named, allowed},
		"a bearer token where a parameter is named":   {param, shop + "?token=" + good, []string{"Authorization", "Bearer forged"}, without("Authorization")},
		"access_token where a parameter is named":     {param, shop + "?access_token=forged&token=" + good, nil, several},
		"a dash for the underscore of a named header": {underscore, shop, []string{"X_jwt", good, "X-Jwt", "forged"}, without("X-Jwt")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := validatorOf(t, keys, at, Rule{Authentications: []Authentication{tc.of}})
			require.Equal(t, tc.want, v.Check(get(tc.target, tc.headers...)))
		})
	}
}

func TestAHeaderWithUnderscoresShadowsThatOfAToken(t *testing.T) {
	t.Parallel()
	keys := NewKeys(KeysOptions{Now: time.Now})
	v := validatorOf(t, keys, &clock{now: atNoon}, Rule{Authentications: []Authentication{{
		Issuer: issuerName, JWKSURI: "http://issuer.example/", FromHeaders: []FromHeader{{Name: "x-id-jwt"}, {Name: "x_user_jwt"}},
	}}})
	for name, want := range map[string]bool{
		"X_id_jwt": true, "X-Id_jwt": true, "X_user-Jwt": true, "X_user_jwt": false, "X-Id-Jwt": false, "X_id": false, "X_other": false,
	} {
		require.Equal(t, want, v.Shadows(name), name)
	}
}

func TestAnyAuthenticationMayAcceptAToken(t *testing.T) {
	t.Parallel()
	first, second, stranger := newSigner(t, "one"), newSigner(t, "two"), newSigner(t, "two")
	one, two := newIssuer(t, first.public()), newIssuer(t, second.public())
	keys, at := keysOf(t, one, two)
	v := validatorOf(t, keys, at, Rule{Authentications: []Authentication{
		{Issuer: issuerName, JWKSURI: one.URL}, {Issuer: issuerName, JWKSURI: two.URL}, {Issuer: "other", JWKSURI: two.URL},
	}})
	other := claimsOf(map[string]any{"iss": "other"})
	for name, tc := range map[string]struct {
		token string
		want  Result
	}{
		"the first":                         {first.token(t, claimsOf(nil)), allowed},
		"the second, of the same issuer":    {second.token(t, claimsOf(nil)), allowed},
		"the third, of another":             {second.token(t, other), allowed},
		"the key of one, the name of other": {first.token(t, other), invalid(unknownKey)},
		"a key with a name that is known":   {stranger.token(t, claimsOf(nil)), invalid(badSignature)},
	} {
		require.Equal(t, tc.want, v.Check(bearing(tc.token)), name)
	}
}

func TestTokensAreVerifiedInTurnByNamespace(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	keys.turns = fair.NewPool(fair.Limits{Total: 1, PerKey: 1, Waiting: 2})
	in := func(namespace string) *Validator {
		v, err := New(ruleOf(issuer), Options{Keys: keys, Namespace: namespace, Now: at.Now})
		require.NoError(t, err)
		return v
	}
	flooded, quiet, known := in("flooded"), in("quiet"), in("flooded")
	token := bearing(key.token(t, claimsOf(nil)))
	require.Equal(t, allowed, known.Check(token))
	require.True(t, keys.turns.TryAcquire("flooded", 1), "one is being verified")
	results := make(chan Result)
	for n, v := range []*Validator{flooded, quiet} {
		go func() { results <- v.Check(token) }()
		require.Eventually(t, func() bool { _, waiting := keys.turns.Stats(); return waiting == int64(n+1) }, time.Minute, time.Millisecond)
	}
	tooMany := Result{Status: http.StatusServiceUnavailable, Body: "Too many tokens of this namespace wait to be verified"}
	require.Equal(t, tooMany, flooded.Check(token))
	require.Equal(t, allowed, known.Check(token), "a token that is known waits for nothing")
	require.Equal(t, invalid(badForm), flooded.Check(bearing("no-token")), "nor does one that costs no signature")
	keys.turns.Release("flooded", 1)
	require.Equal(t, allowed, <-results)
	require.Equal(t, allowed, <-results)
	used, waiting := keys.turns.Stats()
	require.Zero(t, used+waiting)
}

func TestATokenWaitsFiveSecondsForItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := newSigner(t, keyName)
		v := loaded(t, key.public())
		keys := v.options.Keys
		for keys.turns.TryAcquire("hostile", 1) {
			continue
		}
		began := time.Now()
		require.Equal(t, Result{Status: http.StatusServiceUnavailable, Body: string(busy)}, v.Check(bearing(key.token(t, claimsOf(nil)))))
		require.Equal(t, turnTimeout, time.Since(began))
		_, waiting := keys.turns.Stats()
		require.Zero(t, waiting)
	})
}

func TestAllProcessorsButOneVerifyTokens(t *testing.T) {
	t.Parallel()
	for processors, want := range map[int]int64{1: 1, 2: 1, 3: 2, 16: 15} {
		require.Equal(t, want, turnsFor(processors).Total, processors)
	}
}

func TestTokensAreAuthorizedAsByKymasGateway(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	type claims map[string]any
	list := func(values ...any) []any { return values }
	scopes := func(names ...string) Authorization { return Authorization{RequiredScopes: names} }
	audiences := func(names ...string) Authorization { return Authorization{Audiences: names} }
	entries := func(all ...Authorization) []Authorization { return all }
	mixed := Authorization{RequiredScopes: []string{"read"}, Audiences: []string{"shop"}}
	for name, tc := range map[string]struct {
		authorizations []Authorization
		claims         claims
		want           Result
	}{
		"no entry, any valid token":           {nil, nil, allowed},
		"an empty entry":                      {entries(Authorization{}), nil, allowed},
		"no subject":                          {nil, claims{"sub": nil}, denied},
		"an empty subject":                    {nil, claims{"sub": ""}, denied},
		"no subject but the scope":            {entries(scopes("read")), claims{"sub": nil, "scope": "read"}, denied},
		"no scope":                            {entries(scopes("read")), nil, denied},
		"scope as a string":                   {entries(scopes("read")), claims{"scope": "write read"}, allowed},
		"scp as a string, as Azure has it":    {entries(scopes("read", "write")), claims{"scp": "write read"}, allowed},
		"scopes as a string":                  {entries(scopes("read")), claims{"scopes": "read"}, allowed},
		"scope as a list":                     {entries(scopes("read")), claims{"scope": list("write", "read")}, allowed},
		"scp as a list":                       {entries(scopes("read")), claims{"scp": list("read")}, allowed},
		"scopes as a list":                    {entries(scopes("read")), claims{"scopes": list("read")}, allowed},
		"scope as an object":                  {entries(scopes("read")), claims{"scope": claims{"read": true}}, denied},
		"scope as a number":                   {entries(scopes("1")), claims{"scope": 1}, denied},
		"a list with other things in it":      {entries(scopes("read")), claims{"scp": list(1, nil, list("x"), "read")}, allowed},
		"an element with a space is one":      {entries(scopes("read")), claims{"scp": list("read write")}, denied},
		"a tab separates nothing":             {entries(scopes("read")), claims{"scope": "read\twrite"}, denied},
		"one of two scopes":                   {entries(scopes("read", "write")), claims{"scope": "read"}, denied},
		"two scopes in two claims":            {entries(scopes("read", "write")), claims{"scope": "read", "scp": "write"}, denied},
		"the third claim has them":            {entries(scopes("read")), claims{"scp": "a", "scope": "b", "scopes": "read"}, allowed},
		"a longer scope":                      {entries(scopes("read")), claims{"scope": "reads read:all"}, denied},
		"a scope in another case":             {entries(scopes("read")), claims{"scope": "Read"}, denied},
		"a claim in another case":             {entries(scopes("read")), claims{"Scope": "read"}, denied},
		"a star is no pattern":                {entries(scopes("*")), claims{"scope": "read"}, denied},
		"no audience":                         {entries(audiences("shop")), nil, denied},
		"an audience as a string":             {entries(audiences("shop")), claims{"aud": "shop"}, allowed},
		"an audience in a list":               {entries(audiences("shop")), claims{"aud": list("x", "shop")}, allowed},
		"audiences as a string are not split": {entries(audiences("shop")), claims{"aud": "x shop"}, denied},
		"one of two audiences":                {entries(audiences("shop", "x")), claims{"aud": "shop"}, denied},
		"both audiences":                      {entries(audiences("shop", "x")), claims{"aud": list("x", "shop")}, allowed},
		"a longer audience":                   {entries(audiences("shop")), claims{"aud": "shop/"}, denied},
		"scope without audience":              {entries(mixed), claims{"scope": "read"}, denied},
		"audience without scope":              {entries(mixed), claims{"aud": "shop"}, denied},
		"scope and audience":                  {entries(mixed), claims{"aud": "shop", "scope": "read"}, allowed},
		"the second entry":                    {entries(scopes("read"), audiences("shop")), claims{"aud": "shop"}, allowed},
		"a part of each entry":                {entries(mixed, scopes("a", "b")), claims{"aud": "shop", "scope": "a"}, denied},
		"client_id is no audience":            {entries(audiences("shop")), claims{"client_id": "shop"}, denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := validatorOf(t, keys, at, ruleOf(issuer, tc.authorizations...))
			token := key.token(t, claimsOf(tc.claims))
			require.Equal(t, tc.want, v.Check(bearing(token)))
			require.Equal(t, tc.want, v.Check(bearing(token)), "the second time")
		})
	}
}

func TestClocksMayBeAMinuteApart(t *testing.T) {
	t.Parallel()
	key := newSigner(t, keyName)
	issuer := newIssuer(t, key.public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	strict, err := New(ruleOf(issuer), Options{Keys: keys, Now: at.Now, RequireExpiry: true})
	require.NoError(t, err)
	in := func(seconds int64) int64 { return atNoon.Unix() + seconds }
	for name, tc := range map[string]struct {
		claims           map[string]any
		want, wantStrict Result
	}{
		"expired 60 s ago":       {map[string]any{"exp": in(-60)}, allowed, allowed},
		"expired 61 s ago":       {map[string]any{"exp": in(-61)}, invalid(expired), invalid(expired)},
		"expired in 1970":        {map[string]any{"exp": 0}, invalid(expired), invalid(expired)},
		"no exp":                 {map[string]any{"exp": nil}, allowed, invalid(expiryMissing)},
		"a fraction":             {map[string]any{"exp": float64(in(-60)) + 0.9}, allowed, allowed},
		"begins in 60 s":         {map[string]any{"nbf": in(60)}, allowed, allowed},
		"begins in 61 s":         {map[string]any{"nbf": in(61)}, invalid(notYetValid), invalid(notYetValid)},
		"has begun":              {map[string]any{"nbf": in(-1)}, allowed, allowed},
		"exp as a string":        {map[string]any{"exp": "1"}, invalid(expNoInteger), invalid(expNoInteger)},
		"exp below 0":            {map[string]any{"exp": -1}, invalid(expOutOfRange), invalid(expOutOfRange)},
		"exp beyond 64 bits":     {map[string]any{"exp": 1e19}, invalid(expOutOfRange), invalid(expOutOfRange)},
		"nbf as a bool":          {map[string]any{"nbf": true}, invalid(nbfNoInteger), invalid(nbfNoInteger)},
		"nbf beyond 64 bits":     {map[string]any{"nbf": 1e19}, invalid(nbfOutOfRange), invalid(nbfOutOfRange)},
		"iat is not looked at":   {map[string]any{"iat": in(1000)}, allowed, allowed},
		"exp and another issuer": {map[string]any{"exp": 0, "iss": "x"}, invalid(unknownIssuer), invalid(unknownIssuer)},
	} {
		token := key.token(t, claimsOf(tc.claims))
		require.Equal(t, tc.want, v.Check(bearing(token)), name)
		require.Equal(t, tc.wantStrict, strict.Check(bearing(token)), name)
	}
}

func TestAChallengeHasTheURLWithoutItsQuery(t *testing.T) {
	t.Parallel()
	issuer := newIssuer(t, newSigner(t, keyName).public())
	keys, at := keysOf(t, issuer)
	v := validatorOf(t, keys, at, ruleOf(issuer))
	for target, realm := range map[string]string{
		"http://shop.example/orders?access_token=x&a=b":       "http://shop.example/orders",
		"https://shop.example:8443/a%20b?access_token=x":      "https://shop.example:8443/a%20b",
		"http://shop.example/%22,%20error=%22?access_token=x": "http://shop.example/%22,%20error=%22",
		"http://shop.example?access_token=x":                  "http://shop.example",
	} {
		result := v.Check(get(target))
		require.Equal(t, `Bearer realm="`+realm+`", error="invalid_token"`, result.Challenge)
	}
	plain, overTLS := get("/orders?access_token=x"), get("/orders?access_token=x")
	overTLS.TLS = &tls.ConnectionState{}
	require.Equal(t, `Bearer realm="http://example.com/orders", error="invalid_token"`, v.Check(plain).Challenge)
	require.Equal(t, `Bearer realm="https://example.com/orders", error="invalid_token"`, v.Check(overTLS).Challenge)
	quoting := get("http://shop.example/?access_token=x")
	quoting.Host = "a\"b\\c\r\nd"
	require.Equal(t, `Bearer realm="http://abcd/", error="invalid_token"`, v.Check(quoting).Challenge)
}

func TestADenialIsAnsweredAsByEnvoy(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	invalid(expired).Write(answer)
	require.Equal(t, 401, answer.Code)
	require.Equal(t, "Jwt is expired", answer.Body.String())
	require.Equal(t, "text/plain", answer.Header().Get("Content-Type"))
	require.Equal(t, shopChallenge, answer.Header().Get("WWW-Authenticate"))

	answer = httptest.NewRecorder()
	denied.Write(answer)
	require.Equal(t, 403, answer.Code)
	require.Equal(t, "RBAC: access denied", answer.Body.String())
	require.Empty(t, answer.Header().Values("WWW-Authenticate"))
	require.Empty(t, answer.Header().Values("Retry-After"))

	answer = httptest.NewRecorder()
	Result{Status: http.StatusServiceUnavailable, Body: string(busy)}.Write(answer)
	require.Equal(t, "1", answer.Header().Get("Retry-After"))
}

func TestRulesThatNoTokenCanMeetAreRefused(t *testing.T) {
	t.Parallel()
	keys := NewKeys(KeysOptions{Now: time.Now})
	good := Authentication{Issuer: issuerName, JWKSURI: "https://issuer.example/keys"}
	for says, change := range map[string]func(*Rule){
		"jwt.authentications: has 0 entries":  func(r *Rule) { r.Authentications = nil },
		"jwt.authentications: has 33 entries": func(r *Rule) { r.Authentications = make([]Authentication, 33) },
		"authentications[0].issuer: is empty": func(r *Rule) { r.Authentications[0].Issuer = "" },
		"[0].jwksUri: is no URI":              func(r *Rule) { r.Authentications[0].JWKSURI = "/keys" },
		"jwksUri: is no URI that":             func(r *Rule) { r.Authentications[0].JWKSURI = "file:///etc/passwd" },
		"without user and password":           func(r *Rule) { r.Authentications[0].JWKSURI = "https://user:hidden@issuer.example/" },
		"fromHeaders: a name is empty":        func(r *Rule) { r.Authentications[0].FromHeaders = []FromHeader{{Prefix: "x"}} },
		"fromParams: a name is empty":         func(r *Rule) { r.Authentications[0].FromParams = []string{""} },
		"jwt.authorizations[0]":               func(r *Rule) { r.Authorizations = []Authorization{{RequiredScopes: []string{""}}} },
		"authorizations[0]: a scope":          func(r *Rule) { r.Authorizations = []Authorization{{Audiences: []string{""}}} },
	} {
		rule := Rule{Authentications: []Authentication{good}}
		change(&rule)
		_, err := New(rule, Options{Keys: keys, Now: time.Now})
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "hidden")
	}
	_, err := New(Rule{Authentications: []Authentication{good}}, Options{})
	require.ErrorContains(t, err, "needs Keys and a clock")
}

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
