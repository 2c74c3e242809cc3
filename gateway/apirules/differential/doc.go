// Package differential has a test only: the gateway and a real Envoy, configured by the same APIRules, get the same requests in front of
// the same backends, and have to answer alike.
//
//	APIRules --internal/apirule--> gateway/apirules ---------------------\
//	    \                                                                +--> backends, which say what they were sent
//	     ---> what Kyma and Istio make of them --> Envoy: gateway, pods' proxies --/
//
// Envoy has two hops as in Istio: one listener for the ingress gateway, with hosts, routes, CORS and timeouts, and one for the proxy
// beside each Service, with tokens, authorizers and policies.
//
// It guarantees:
//   - status, body, headers, and what the backend was sent are equal, but for the differences that are written down with a reason;
//   - a difference that is written down and no longer there fails the test as well.
package differential
