package jwt

import "slices"

// admits reports whether a valid token is allowed. One without a subject is not.
func (r *Rule) admits(c *claims) bool {
	if c.subject == "" {
		return false
	}
	return len(r.Authorizations) == 0 ||
		slices.ContainsFunc(r.Authorizations, func(a Authorization) bool { return a.admits(c) })
}

// admits wants the scopes in one claim: two claims that have a part each may mean different things.
func (a Authorization) admits(c *claims) bool {
	return hasAll(c.audiences, a.Audiences) &&
		slices.ContainsFunc(c.scopes[:], func(scopes []string) bool { return hasAll(scopes, a.RequiredScopes) })
}

func hasAll(values, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(each string) bool { return !slices.Contains(values, each) })
}
