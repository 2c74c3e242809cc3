// Package jwt decides by bearer tokens whether a rule of an APIRule lets a request through.
//
//	request --> find the token --> parse --> issuer, time --> signature --> subject, scopes, audiences --> Result
//	              (place.go)     (token.go)   (claims.go)     (search.go)          (authorize.go)
//	                                                              ^
//	                jwksUri --GET--> Keys, a cache for each URI --+
//
// A Validator serves the jwt object of one rule. All Validators share a Keys, which fetches: the decisions above are functions of
// a token, a set of keys and a time.
//
// Validator guarantees:
//   - without a token 403, with a token that is not valid 401, with a valid one that may not 403, in the words that Envoy has for
//     it. What cannot be decided is denied;
//   - algorithms are those of public keys (RS, PS, ES, EdDSA), and a key is asked for no algorithm but its own. What a token says
//     about where its key is, and about extensions, is not believed;
//   - one token in a request, in one of the places that its issuer allows, of 8 KiB at most, without duplicate members. What a backend
//     could take for it elsewhere is refused, or named as not checked;
//   - a token costs ten signatures at most, whoever's the keys are, and namespaces take turns with them;
//   - a token that was found valid costs no signature until its keys change, and is judged by the clock each time;
//   - no token, and nothing of one, is in an error, a Result or a State.
//
// Keys guarantees, for each URI on its own, so that none waits for another:
//   - keys are there before the first request, and are refreshed every 5 to 20 minutes as Cache-Control says, less a jitter. Keys no
//     longer published are gone then;
//   - a token by a key that is not known has the URI asked once, at most every 10 seconds, however many such tokens come;
//   - an outage takes no keys away for 24 hours;
//   - answers are bounded: 5 seconds, 1 MiB, 100 keys, no redirect to another host. Addresses are judged by a dialguard.Guard;
//   - 16 answers over 64 KiB are read at a time, of which a namespace has no more than it leaves free;
//   - 32 URIs of a namespace and 512 in all. Namespaces take turns, in which those come first that are there already.
package jwt
