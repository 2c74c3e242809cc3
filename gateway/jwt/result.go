package jwt

import (
	"io"
	"net/http"
	"strings"
)

// problem is why a token is not valid. It is the body of the answer, in Envoy's words where Envoy has some.
type problem string

const (
	badForm            problem = "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections"
	badHeaderEncoding  problem = "Jwt header is an invalid Base64url encoded"
	badHeader          problem = "Jwt header is an invalid JSON"
	badAlgorithm       problem = "Jwt header [alg] field is required and must be a string"
	unknownAlgorithm   problem = "Jwt header [alg] is not supported"
	badKeyID           problem = "Jwt header [kid] field is not a string"
	badPayloadEncoding problem = "Jwt payload is an invalid Base64url encoded"
	badPayload         problem = "Jwt payload is an invalid JSON"
	badIssuer          problem = "Jwt payload [iss] field is not a string"
	badSubject         problem = "Jwt payload [sub] field is not a string"
	badAudience        problem = "Jwt payload [aud] field is not a string or string list"
	expNoInteger       problem = "Jwt payload [exp] field is not an integer"
	expOutOfRange      problem = "Jwt payload [exp] field is not a positive 64 bit integer"
	nbfNoInteger       problem = "Jwt payload [nbf] field is not an integer"
	nbfOutOfRange      problem = "Jwt payload [nbf] field is not a positive 64 bit integer"
	badSignatureText   problem = "Jwt signature is an invalid Base64url encoded"
	unknownIssuer      problem = "Jwt issuer is not configured"
	expired            problem = "Jwt is expired"
	notYetValid        problem = "Jwt not yet valid"
	severalTokens      problem = "Found multiple Jwt tokens"
	unknownKey         problem = "Jwks doesn't have key to match kid or alg from Jwt"
	badSignature       problem = "Jwt verification fails"
	keysMissing        problem = "Jwks remote fetch is failed"

	// Envoy has no words for these.
	tooLong       problem = "Jwt is longer than 8192 bytes"
	extension     problem = "Jwt header [crit] and [b64] are not supported"
	expiryMissing problem = "Jwt payload [exp] field is required"

	// busy is no problem of the token.
	busy problem = "Too many tokens of this namespace wait to be verified"
)

const (
	accessDenied   = "RBAC: access denied"
	malformedQuery = "The query is malformed: write % as %25 and ; as %3B"
	// maxRealmPath is how much of a path a challenge repeats.
	maxRealmPath = 256
)

// Result is the decision on a request. Its zero value denies.
type Result struct {
	Allowed bool
	// Unchecked are headers of a request that is allowed which could be taken for a token, and were not checked. They are not to be
	// forwarded.
	Unchecked []string
	// Status and Body are those of the answer where the request is not allowed.
	Status int
	Body   string
	// Challenge is the value of the header WWW-Authenticate, or empty.
	Challenge string
}

// Write answers a request that is not allowed.
func (r Result) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain")
	if r.Challenge != "" {
		w.Header().Set("WWW-Authenticate", r.Challenge)
	}
	if r.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, r.Body) // a client that has gone needs no answer
}

func forbidden() Result { return Result{Status: http.StatusForbidden, Body: accessDenied} }

func unauthorized(request *http.Request, why problem) Result {
	return Result{
		Status:    http.StatusUnauthorized,
		Body:      string(why),
		Challenge: `Bearer realm="` + realm(request) + `", error="invalid_token"`,
	}
}

// realm is the URL of a request without its query, which may hold a token.
func realm(request *http.Request) string {
	scheme := request.URL.Scheme
	if scheme != "http" && scheme != "https" {
		scheme = "http"
		if request.TLS != nil {
			scheme = "https"
		}
	}
	path := request.URL.EscapedPath()
	return strings.Map(quotable, scheme+"://"+request.Host+path[:min(len(path), maxRealmPath)])
}

// quotable drops what would end or escape a quoted string.
func quotable(r rune) rune {
	if r < '!' || r > '~' || r == '"' || r == '\\' {
		return -1
	}
	return r
}
