package differential

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// difference is one that is meant.
type difference struct {
	// subject is what the requests have in common, envoy and rouse are the results of each, and why is the reason for
	// the difference.
	subject, envoy, rouse, why string
	// requests are regular expressions for their names. Each of the requests has to show the difference.
	requests []string
	// parts of an answer that differ, and no others.
	parts []string
}

const (
	status      = "status"
	body        = "body"
	contentType = "Content-Type"
	challenge   = "Www-Authenticate"
)

// differences are the ones that docs/apirule.md lists.
var differences = []difference{
	{
		subject:  "Escapes in a path, such as %2f",
		envoy:    "forwards them as they came, but for those of unreserved characters",
		rouse:    "writes them in upper case: %2F",
		why:      "one form of a path for rules, logs and backends",
		requests: []string{`%2f`, `%c3%a9`},
		parts:    []string{body},
	},
	{
		subject:  "Malformed escapes in a path, such as %zz",
		envoy:    "404, as they fit no path but /*, with which they are forwarded",
		rouse:    "400",
		why:      "backends read them in different ways",
		requests: []string{`/deep/a%zz$`, `/files/a%$`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "Path of a rule with . + $ ( )",
		envoy:    "takes it as a regular expression: /v1.0 lets /v1X0 through to the policies, which answer 403; /a+b never fits",
		rouse:    "takes it literally: 404 and a match",
		why:      "the characters are ones of paths",
		requests: []string{`/v1X0/orders`, `/plus\+?sign`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  `\ in a path`,
		envoy:    "takes it for /",
		rouse:    "is a character of a segment, and is escaped",
		why:      "RFC 3986: only / separates",
		requests: []string{`/files(/a)?\\`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "# or bytes beyond ASCII in a path",
		envoy:    "400",
		rouse:    "escapes them",
		why:      "the backend gets a valid path",
		requests: []string{`/files/a#b`, `/files/é`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "Host with a port, at a wildcard",
		envoy:    "404, but with the port of the gateway itself",
		rouse:    "the port does not count",
		why:      "as at other hosts",
		requests: []string{`a\.wild\.example\.com:8443/`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "X-Forwarded-Host at a wildcard",
		envoy:    "as the caller wrote the host, with port",
		rouse:    "in lower case, without port",
		why:      "one form of a host for backends",
		requests: []string{`A\.WILD\.example\.com/`, `a\.wild\.example\.com:80/`},
		parts:    []string{body},
	},
	{
		subject:  "Host that a wildcard with noAuth fits, and an APIRule of its own with jwt",
		envoy:    "the policies of both add up: no token needed",
		rouse:    "the most specific host counts alone: 403",
		why:      "another APIRule opens nothing",
		requests: []string{`^GET guarded\.shared\.example\.com/$`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "Methods that are none of HTTP",
		envoy:    "400",
		rouse:    "404, as no rule has them",
		why:      "the server passes on what is a token",
		requests: []string{`^(get|Get|BREW) `},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "OPTIONS *",
		envoy:    "404",
		rouse:    "200, empty",
		why:      "it asks the server, and never reaches a rule",
		requests: []string{`^OPTIONS method\.example\.com\*`},
		parts:    []string{status},
	},
	{
		subject: "Bad token where the rule asks for none",
		envoy:   "401, when another rule leads to the same Service with jwt",
		rouse:   "is ignored",
		why:     "a rule is decided by itself",
		requests: []string{
			`^GET header.*(Authorization: Bearer x|\?access_token=x)`, `^a bad token: GET token\.example\.com/open`,
			`^with a bad token: GET ask.*/(first|both|gone|open)$`,
		},
		parts: []string{status, body, contentType, challenge, "X-Authorizer", "Set-Cookie"},
	},
	{
		subject:  "Token of an issuer that only another rule for the same Service names",
		envoy:    "403, or what else is wrong with it",
		rouse:    "401 Jwt issuer is not configured",
		why:      "a rule is decided by itself",
		requests: []string{`^of a: GET issuers.*/b$`, `^of b: GET issuers.*/a$`, `^expired of a: GET issuers.*/b$`},
		parts:    []string{status, body, challenge},
	},
	{
		subject: "realm of WWW-Authenticate",
		envoy:   "the URL with its query, which may be the token",
		rouse:   "the URL without its query",
		why:     "tokens stay out of answers and logs",
		requests: []string{
			`GET token\.example\.com/guarded\?a=b`, `^bad in access_token: GET place(-two)?\.`, `^bad in jwt: GET place-param`,
			`^empty in access_token: GET place(-two)?\.`, `^in (jwt and Authorization|X-Jwt and access_token): GET place(-two)?\.`,
		},
		parts: []string{challenge},
	},
	{
		subject: "Several tokens in a request",
		envoy:   "each place has to have a valid one; a header that is there twice is one with a comma in it, and of a parameter one counts",
		rouse:   "401 Found multiple Jwt tokens",
		why:     "the backend could read the other one",
		requests: []string{
			`^(good|bad) in Authorization, (bad|good) in access_token: GET place(-two)?\.`,
			`^(good in both|twice in Authorization|twice in access_token): GET place(-two)?\.`,
			`^in two headers, the second good: GET place(-two)?\.`, `^in Authorization, another scheme before: GET place(-two)?\.`,
			`^in access_token, bearer in Authorization: GET place(-two)?\.`,
			`^in Authorization, (access_token with an escape|ACCESS_TOKEN): GET place(-two)?\.`, `^in X-Jwt and access_token: GET place-bare`,
		},
		parts: []string{status, body, contentType, challenge},
	},
	{
		subject:  "Bearer in another case, or before a tab",
		envoy:    "is no scheme for tokens: 403",
		rouse:    "is the same scheme",
		why:      "RFC 9110, and backends: what they take for the token has to be the one that was checked",
		requests: []string{`^after (bearer|BEARER|a tab): GET place(-two)?\.`},
		parts:    []string{status, body, contentType},
	},
	{
		subject: "Authorization in which the token was not",
		envoy:   "is forwarded",
		rouse:   "is removed; where a rule names other places, only after Bearer",
		why:     "the backend could take it for the token that was checked",
		requests: []string{
			`^in access_token, another scheme in Authorization: GET place(-two)?\.`,
			`^in jwt and Authorization: GET place-param`, `^in X-Jwt and Authorization: GET place-bare`,
		},
		parts: []string{body},
	},
	{
		subject: "Query with ; or a malformed escape, where a parameter may have the token",
		envoy:   "is read in its own way",
		rouse:   "400",
		why:     "backends read it in different ways",
		requests: []string{
			`^after a (bad escape|semicolon): GET place(-param|-two)?\.`,
			`^in access_token, a (semicolon|bad escape) in another: GET place(-param|-two)?\.`,
			`^in Authorization, a bad escape in the query: GET place(-param|-two)?\.`,
		},
		parts: []string{status, body, contentType, challenge},
	},
	{
		subject:  "scp or scopes as a text with several scopes",
		envoy:    "is one scope",
		rouse:    "is split at spaces, like scope",
		why:      "identity providers issue such tokens",
		requests: []string{`^(scp|scopes) texts: GET .*/(one|both|either)$`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "crit and b64 in the header of a token",
		envoy:    "ignores them",
		rouse:    "401",
		why:      "RFC 7515: what is critical and not understood is refused",
		requests: []string{`^(crit|b64): `},
		parts:    []string{status, body, contentType, challenge},
	},
	{
		subject:  "Tokens signed with a secret (HS256)",
		envoy:    "are valid when the secret is published",
		rouse:    "401: there is no such key",
		why:      "a secret that is published is none",
		requests: []string{`^HS256`},
		parts:    []string{status, body, contentType, challenge},
	},
	{
		subject:  "Token longer than 8 KiB",
		envoy:    "is read",
		rouse:    "401",
		why:      "what a request costs before it is known is bounded",
		requests: []string{`^long: `},
		parts:    []string{status, body, contentType, challenge},
	},
	{
		subject:  "Characters in a token that are none of base64url",
		envoy:    "ends the token there, and judges the rest",
		rouse:    "401 with another text",
		why:      "the token is the whole value",
		requests: []string{`^header no base64: `, `^padded base64: `, `^in X-Jwt after JwtToken: GET place-bare`},
		parts:    []string{body},
	},
	{
		subject:  "Bad token at extAuth with restrictions",
		envoy:    "401 before an authorizer is asked",
		rouse:    "401 after the authorizers were asked, with their headers for callers",
		why:      "an authorizer may send callers without a token to a login",
		requests: []string{`^with a bad token: GET ask.*/restricted$`},
		parts:    []string{"X-Authorizer", "Set-Cookie"},
	},
	{
		subject:  "Header that several authorizers, or an authorizer and the backend, have for the caller",
		envoy:    "has all values",
		rouse:    "has that of the authorizer that was asked last; Set-Cookie has all",
		why:      "what an authorizer says, no other may add to",
		requests: []string{`^(with a token: )?GET ask.*/both($| with X-Backend)`, `ask.* with X-Backend: header=X-Authorizer`},
		parts:    []string{"X-Authorizer"},
	},
	{
		subject:  "Backend refuses the connection",
		envoy:    "503 upstream connect error, with the reason",
		rouse:    "503 upstream connect error",
		why:      "callers need not know more",
		requests: []string{`backend\.example\.com/refused`},
		parts:    []string{body},
	},
	{
		subject:  "Backend breaks off before it answers",
		envoy:    "503",
		rouse:    "502",
		why:      "it may have done what it was asked to: 503 says that it can be asked again",
		requests: []string{`X-Backend: abort$`},
		parts:    []string{status, body},
	},
	{
		subject:  "Upgrade to anything but WebSocket",
		envoy:    "403",
		rouse:    "the header is removed, and the backend answers",
		why:      "RFC 9110: a server may ignore it",
		requests: []string{`Upgrade: other`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "Proxy-Authorization",
		envoy:    "is forwarded",
		rouse:    "is removed",
		why:      "it is for the proxy, and a secret",
		requests: []string{`Proxy-Authorization`},
		parts:    []string{body},
	},
	{
		subject:  "X-Forwarded-*, Forwarded and X-Real-Ip of callers",
		envoy:    "keeps them, and adds to X-Forwarded-For",
		rouse:    "removes them, unless the caller is a trusted proxy",
		why:      "backends believe them",
		requests: []string{` Forwarded: `, `X-Real-Ip`, `X-Forwarded-(For|Port)`},
		parts:    []string{body},
	},
	{
		subject:  "Headers with _ in place of -",
		envoy:    "passes them on beside the one that a rule sets, or has the token in",
		rouse:    "removes those that some servers take for it",
		why:      "a rule's header is the only one of its name",
		requests: []string{`X_Forwarded_Host`, `/set with X_One`, `^in X-Jwt and X_Jwt: GET place-bare`},
		parts:    []string{body},
	},
	{
		subject:  "Rouse-* in requests and answers",
		envoy:    "passes them on",
		rouse:    "removes them",
		why:      "parts of Rouse know each other by them",
		requests: []string{`Rouse-Refused`},
		parts:    []string{body, "Rouse-Refused"},
	},
	{
		subject: "Malformed HTTP",
		envoy:   "400 Bad Request, or 501",
		rouse:   "the same status, with another text",
		why:     "it is the server's, before any rule",
		requests: []string{
			`^two lengths`, `^a length and chunks`, `^a signed length`, `^a coding but chunked`, `^a path in the host`, `^no host`,
			`^a line without a colon`, `^a space in the target`, `^a target without a slash`, `^a control character`,
			`^a space before the colon`, `X-Ünicode`, `^a chunk that is (none|too long)$`,
		},
		parts: []string{body, contentType},
	},
	{
		subject:  "Two Host headers, or a user in it",
		envoy:    "404",
		rouse:    "400",
		why:      "no host is meant",
		requests: []string{`^two hosts`, `^a user in the host`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "HTTP/1.0",
		envoy:    "426",
		rouse:    "is answered",
		why:      "health checks of load balancers speak it",
		requests: []string{`^HTTP/1\.0`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "HTTP/2.0 and higher in the first line",
		envoy:    "426",
		rouse:    "505",
		why:      "it is the server's, before any rule",
		requests: []string{`^HTTP/[23]\.`},
		parts:    []string{status, body, contentType},
	},
	{
		subject:  "Body that stops",
		envoy:    "408 stream timeout",
		rouse:    "408 with another text",
		why:      "it says what was missing",
		requests: []string{`^a body that (stops|does not begin)$`, `^chunks that stop$`},
		parts:    []string{body},
	},
	{
		subject: "Vary at a host with corsPolicy",
		envoy:   "as the backend says it",
		rouse:   "has Origin too",
		why:     "a cache gives no origin the answer to another",
		requests: []string{
			`^(with a (bad )?token: )?(GET|POST) cors(-star|-regex)?\.example\.com/(open|guarded|no-options)[^X]*$`,
			`^(GET|OPTIONS) cors\.example\.com/open.* https://EXACT\.example`, `^GET cors\..*X-Backend: status=500$`,
			`^OPTIONS cors(-star|-regex)\.example\.com/open`, `^OPTIONS cors\.example\.com/(open|guarded)[^X]*$`,
			`^OPTIONS cors\.example\.com/open.*X-Other$`,
		},
		parts: []string{"Vary"},
	},
	{
		subject:  "Content-Length twice the same",
		envoy:    "400",
		rouse:    "one counts, and the backend gets one",
		why:      "what is forwarded has one meaning",
		requests: []string{`^two equal lengths`},
		parts:    []string{status, body, contentType},
	},
}

func TestEveryDifferenceIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/apirule.md")
	require.NoError(t, err)
	rows := strings.Split(string(page), "\n")
	for _, d := range differences {
		row := "| " + d.subject + " | " + d.envoy + " | " + d.rouse + " | " + d.why + " |"
		require.True(t, slices.Contains(rows, row), "docs/apirule.md needs the row %s", row)
	}
}
