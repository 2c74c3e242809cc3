package jwt

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// skew is how far the clocks of an issuer and of this process may be apart, in seconds.
const skew = 60

// never is the end of what does not end.
const never = math.MaxInt64

// lifetime is from nbf to exp, in seconds since 1970.
type lifetime struct {
	notBefore, expires int64
}

func (l lifetime) problemAt(now time.Time) problem {
	switch seconds := now.Unix(); {
	case seconds+skew < l.notBefore:
		return notYetValid
	case seconds-skew > l.expires:
		return expired
	}
	return ""
}

// claims are those that rules ask for.
type claims struct {
	lifetime

	issuer, subject string
	audiences       []string
	scopes          [3][]string // of the claims scp, scope and scopes
}

// parseClaims refuses duplicate members, at any depth: another reader could take the other one.
func parseClaims(payload []byte) (claims, problem) {
	var raw struct {
		Issuer    jsontext.Value `json:"iss"`
		Subject   jsontext.Value `json:"sub"`
		Audience  jsontext.Value `json:"aud"`
		Expires   jsontext.Value `json:"exp"`
		NotBefore jsontext.Value `json:"nbf"`
		SCP       jsontext.Value `json:"scp"`
		Scope     jsontext.Value `json:"scope"`
		Scopes    jsontext.Value `json:"scopes"`
	}
	if json.Unmarshal(payload, &raw) != nil {
		return claims{}, badPayload
	}
	var (
		c   claims
		ok  bool
		why problem
	)
	if c.issuer, ok = stringOf(raw.Issuer); !ok && raw.Issuer != nil {
		return claims{}, badIssuer
	}
	if c.subject, ok = stringOf(raw.Subject); !ok && raw.Subject != nil {
		return claims{}, badSubject
	}
	if c.audiences, ok = audiencesOf(raw.Audience); !ok {
		return claims{}, badAudience
	}
	if c.notBefore, why = secondsOf(raw.NotBefore, 0, nbfNoInteger, nbfOutOfRange); why != "" {
		return claims{}, why
	}
	if c.expires, why = secondsOf(raw.Expires, never, expNoInteger, expOutOfRange); why != "" {
		return claims{}, why
	}
	for i, value := range []jsontext.Value{raw.SCP, raw.Scope, raw.Scopes} {
		c.scopes[i] = scopesOf(value)
	}
	return c, ""
}

// secondsOf reads a time, whose fraction does not count.
func secondsOf(value jsontext.Value, absent int64, noNumber, outOfRange problem) (int64, problem) {
	switch {
	case value == nil:
		return absent, ""
	case value.Kind() != jsontext.KindNumber:
		return 0, noNumber
	}
	number, err := strconv.ParseFloat(string(value), 64)
	if err != nil || number < 0 || number >= never {
		return 0, outOfRange
	}
	return int64(number), ""
}

// audiencesOf reads a string or a list of strings.
func audiencesOf(value jsontext.Value) ([]string, bool) {
	if value == nil {
		return nil, true
	}
	if one, ok := stringOf(value); ok {
		return []string{one}, true
	}
	var all []string
	if value.Kind() != jsontext.KindBeginArray || json.Unmarshal(value, &all) != nil {
		return nil, false
	}
	return all, true
}

// scopesOf splits a string at its spaces, and takes the strings of a list as they are. Other forms have no scopes.
func scopesOf(value jsontext.Value) []string {
	if one, ok := stringOf(value); ok {
		return strings.Split(one, " ")
	}
	var elements []jsontext.Value
	if value.Kind() != jsontext.KindBeginArray || json.Unmarshal(value, &elements) != nil {
		return nil
	}
	var scopes []string
	for _, element := range elements {
		if scope, ok := stringOf(element); ok {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}
