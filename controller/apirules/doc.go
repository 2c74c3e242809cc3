// Package exposure tells in the status of each APIRule what became of it, and leads Gateways of Gateway API to Rouse's gateways.
//
// It decides nothing about requests: the gateways decide alike, by internal/apirule, from the same objects. It asks them what they
// have loaded, and keeps for each APIRule of a Gateway an HTTPRoute in its namespace and a ReferenceGrant beside the gateways.
//
// It guarantees:
//   - Ready means that every gateway that answers serves the APIRule as it is written now, and that its Gateway has accepted the
//     HTTPRoute;
//   - the status is written only when it changes, and nothing at all before the gateways were asked once;
//   - an HTTPRoute or a ReferenceGrant of another owner is left as it is;
//   - nothing has to be cleaned up: an HTTPRoute goes with its APIRule, and the ReferenceGrants with the gateways' Service;
//   - what gateways answer is bounded, and one that does not answer holds up nobody.
package apirules
