// Package apirules reconciles APIRules: it reports in the status of each whether the gateways serve it, and connects
// Gateways of Gateway API to Rouse's gateways.
//
// It decides nothing about requests: the gateways decide on the same objects by the same rules, internal/apirule. The
// controller queries what they have loaded, and maintains for each APIRule of a Gateway an HTTPRoute in its namespace and
// a ReferenceGrant in the gateways' namespace.
//
// It guarantees:
//   - Ready means that every gateway that responds serves the current version of the APIRule, and that its Gateway has
//     accepted the HTTPRoute;
//   - the status is written only when it changes, and only after the gateways have been queried once;
//   - an HTTPRoute or a ReferenceGrant of another owner stays unchanged;
//   - no cleanup is needed: an HTTPRoute is garbage collected with its APIRule, and the ReferenceGrants with the
//     gateways' Service;
//   - the size of a gateway's response is bounded, and a gateway that does not respond delays no other.
package apirules
