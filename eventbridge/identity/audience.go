package identity

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// Audience is what a token can be for alone: with it nothing else can be done in the cluster, whoever sees it on its way.
const Audience = "rouse-admin"

// audienceOf says for which audience a token is to be reviewed: for Audience if it claims to be for that, else for the API server,
// whose tokens kubeconfigs have. Whether the claim is true the review says.
func audienceOf(token string) string {
	parts := strings.Split(token, ".")
	const ofJWT = 3
	if len(parts) != ofJWT {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Audiences audiences `json:"aud"`
	}
	if json.Unmarshal(payload, &claims) != nil || !slices.Contains(claims.Audiences, Audience) {
		return ""
	}
	return Audience
}

// audiences are one string or several.
type audiences []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a)) //nolint:wrapcheck // a token that cannot be read is no failure
}
