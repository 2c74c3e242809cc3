// Package jwt decides by bearer tokens whether a rule of an APIRule allows a request.
//
//	request --> find the token --> parse --> issuer, time --> signature --> subject, scopes, audiences --> Result
//	               (rule.go)     (token.go)   (token.go)    (keyset.go)           (rule.go)
//	                                                              ^
//	                jwksUri --GET--> Keys, a cache for each URI --+
//
// A Validator serves the jwt object of one rule. All Validators share a Keys, which fetches: the decisions above are functions
// of a token, a set of keys and a time.
//
// Validator guarantees:
//   - A request without a token gets 403, one with an invalid token 401, and one with a valid token that the rule does not allow
//     403, with Envoy's texts. What cannot be decided is denied.
//   - Algorithms are those of public keys (RS, PS, ES, EdDSA), and a key is used only with its own. What a token claims about the
//     location of its key, and about extensions, is not trusted.
//   - A request has one token, in one of the places that its issuer allows, of 8 KiB at most, without duplicate members. What a
//     backend could take for a token elsewhere is refused, or reported as unchecked.
//   - A token costs ten signatures at most, whoever owns the keys, and namespaces take turns with them.
//   - A valid token costs no further signature until its keys change. Its lifetime is checked each time.
//   - No token, and no part of one, is in an error, a Result or a State.
//
// Keys guarantees, for each URI independently, so that none waits for another:
//   - Keys are fetched before the first request, and every 5 to 20 minutes according to Cache-Control, less a jitter. Keys that
//     are no longer published are dropped then.
//   - A token with an unknown key causes one fetch, at most every 10 seconds, however many such tokens arrive.
//   - During an outage keys remain valid for 24 hours.
//   - Responses are bounded: 5 seconds, 1 MiB, 100 keys, no redirect to another host. A dialguard.Guard checks addresses.
//   - 16 responses over 64 KiB are read concurrently, of which a namespace has at most as many as it leaves free.
//   - There are at most 32 URIs per namespace and 512 overall. Namespaces take turns; URIs that are already used come first.
package jwt
