// Package exposures reports what the APIRules of the cluster amount to, as internal/exposure decides it.
//
// Gateways and the controller use it alike, each from the informer cache that it runs anyway, so that they agree without talking.
// Guarantees:
//   - apply gets the full picture, first after the cache is in step and then after each change that can matter, one call at a time.
//     Changes that come together are reported together, and a status that is written changes nothing;
//   - a kind that the API server does not serve, or not yet, is as if there was no object of it: it holds up nothing, and is noticed
//     when it comes;
//   - however often objects change, deciding takes at most a quarter of a processor;
//   - the cache keeps of each kind only what is asked for.
package exposures
