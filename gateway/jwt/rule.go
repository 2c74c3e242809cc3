package jwt

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

const (
	// maxAuthentications bounds what one token can cost.
	maxAuthentications = 32
	maxURI             = 2048
)

var errURI = errors.New("no URI that keys can be fetched from: write http:// or https://, a host and a path, without user and password")

// Rule is the jwt object of a rule: which tokens are valid, and which of the valid ones are allowed.
type Rule struct {
	// Authentications are alternatives: any one may accept a token.
	Authentications []Authentication
	// Authorizations are alternatives, too. Without one every valid token is allowed.
	Authorizations []Authorization
}

// Authentication names an issuer and says where its tokens are: in the header Authorization after "Bearer " and in the query
// parameter access_token, or else only in the places named here.
type Authentication struct {
	Issuer      string
	JWKSURI     string
	FromHeaders []FromHeader
	FromParams  []string
}

// FromHeader is a header that has a token after the prefix, which is compared literally. In Authorization it is a scheme, without case.
type FromHeader struct {
	Name, Prefix string
}

// Authorization is met by tokens that have all of its audiences, and all of its scopes in one claim.
type Authorization struct {
	RequiredScopes []string
	Audiences      []string
}

// check finds what a Validator could not serve. The API has more rules than these.
func (r *Rule) check() error {
	if n := len(r.Authentications); n == 0 || n > maxAuthentications {
		return fmt.Errorf("jwt.authentications: has %d entries: write 1 to %d, each with issuer and jwksUri", n, maxAuthentications)
	}
	for i, a := range r.Authentications {
		if a.Issuer == "" {
			return fmt.Errorf("jwt.authentications[%d].issuer: is empty: write what tokens have as iss", i)
		}
		if err := checkURI(a.JWKSURI); err != nil {
			return fmt.Errorf("jwt.authentications[%d].jwksUri: is %w", i, err)
		}
		if slices.ContainsFunc(a.FromHeaders, func(from FromHeader) bool { return from.Name == "" }) {
			return fmt.Errorf("jwt.authentications[%d].fromHeaders: a name is empty: write the header's", i)
		}
		if slices.Contains(a.FromParams, "") {
			return fmt.Errorf("jwt.authentications[%d].fromParams: a name is empty: write the query parameter's", i)
		}
	}
	for i, a := range r.Authorizations {
		if slices.Contains(a.RequiredScopes, "") || slices.Contains(a.Audiences, "") {
			return fmt.Errorf("jwt.authorizations[%d]: a scope or an audience is empty: write it, or leave the entry out", i)
		}
	}
	return nil
}

// checkURI has one error for all, as a URI may hold a password.
func checkURI(uri string) error {
	at, err := url.Parse(uri)
	if err != nil || len(uri) > maxURI || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" || at.User != nil {
		return errURI
	}
	return nil
}

// places lists where tokens may be, each place once, with the authentications that allow it.
func (r *Rule) places() []place {
	var places []place
	add := func(p place, authentication int) {
		at := slices.IndexFunc(places, p.same)
		if at < 0 {
			at = len(places)
			places = append(places, p)
		}
		places[at].authentications = append(places[at].authentications, authentication)
	}
	for i, a := range r.Authentications {
		for _, from := range a.FromHeaders {
			add(place{header: http.CanonicalHeaderKey(from.Name), prefix: from.Prefix}, i)
		}
		for _, name := range a.FromParams {
			add(place{param: name}, i)
		}
		if len(a.FromHeaders)+len(a.FromParams) == 0 {
			add(place{header: authorization, prefix: bearerScheme + " "}, i)
			add(place{param: accessToken}, i)
		}
	}
	return places
}
