// Package differential contains only a test: the gateway and a real Envoy, configured by the same APIRules, get the same
// requests in front of the same backends, and must respond alike.
//
//	APIRules --internal/apirule--> gateway/apirules ---------------------\
//	    \                                                                 +--> backends, which echo what they got
//	     ---> as Kyma and Istio translate them --> Envoy: gateway, sidecars --/
//
// Envoy has two hops as in Istio: a listener for the ingress gateway, with hosts, routes, CORS and timeouts, and one for the
// sidecar of each Service, with tokens, authorizers and policies.
//
// Guarantees:
//   - Status, body, headers, and what the backend got are equal, except for differences that are listed with a reason.
//   - A listed difference that no longer exists fails the test too.
package differential
