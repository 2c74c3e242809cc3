// Package apirules serves the requests of APIRules: it finds the rule of a request, authorizes the caller, and forwards.
//
//	host --> rule --> CORS --> noAuth | jwt | extAuth --> headers, timeout --> Function (gateway/activator) or other Service
//	(apirules.go)  (internal/apirule)  (cors.go)  (access.go, gateway/jwt)  (request.go)  (exchange.go)
//
// Server is an http.Handler over an immutable table that Set replaces: the compiled decisions of internal/apirule.
//
// Guarantees:
//   - Only the most specific host applies, the first rule with the path and the method decides, and a request without a rule
//     gets 404.
//   - Paths are compared in a normalized form, and forwarded in that form.
//   - What is not allowed is denied: a rule that cannot be compiled is closed (503), an authorizer that fails or is slow denies
//     (403), and a token that cannot be verified is invalid (401). Other rules and other APIRules are not affected.
//   - Backends get none of the caller's headers that are internal to Rouse or set by the gateway. A response has no CORS
//     headers but the APIRule's.
//   - A response has the timeout of its rule, which a slow caller does not use up: 504 before the response has begun, and an
//     aborted response afterwards. Upgraded connections have no timeout.
//   - A Service that is not a Function is reached at its own pods as reported by Endpoints, never at its cluster IP.
//   - A request reaches one backend once. It is retried only when no connection could be made.
//   - Concurrent requests of one APIRule are bounded, and so are bodies and headers of authorizers, origins and their patterns.
//   - Set reuses what did not change, and requests in progress continue with the previous table.
//   - Requests, and parts of them, are never logged.
package apirules
