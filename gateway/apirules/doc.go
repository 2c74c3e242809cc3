// Package expose answers the requests of APIRules: it finds the rule of a request, decides whether the caller may, and forwards.
//
//	host --> rule --> CORS --> noAuth | jwt | extAuth --> headers, timeout --> Function (gateway/activator) or other Service
//	(table.go)  (internal/apirule)  (cors.go)  (check.go, gateway/jwt)  (request.go, deadline.go)  (service.go)
//
// Exposed is an http.Handler over a table that Set replaces as a whole: what internal/apirule has decided, compiled. It guarantees:
//   - the most specific host answers alone, the first rule that has the path and the method decides, and what none has is 404;
//   - a path is compared in one form of all that mean the same, and forwarded in that form;
//   - what is not allowed is denied: a rule that cannot be compiled is closed (503), an authorizer that fails or is slow denies
//     (403), and a token that cannot be verified is none (401). Other rules and other APIRules answer all the same;
//   - backends get no header of a caller's by which parts of Rouse know each other, nor one in place of what the gateway sets. No
//     answer has a CORS header that is not the APIRule's;
//   - an answer has the time of its rule, in which a caller's own slowness does not count: 504 before it has begun, and cut
//     afterwards. Upgraded connections have no limit;
//   - a Service that is no Function is reached at pods that Endpoints knows to be its own, never at its cluster IP;
//   - a request reaches one backend once. It is repeated only when no connection could be made;
//   - requests of one APIRule at a time are bounded, and so are bodies and headers of authorizers, origins and their patterns;
//   - Set takes over what did not change, and requests that run keep what they began with.
//
// It never logs a request, nor anything of one.
package apirules
