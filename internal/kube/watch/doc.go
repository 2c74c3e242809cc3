// Package watch reports the state of the cluster to the data plane: Subscriptions as routes, the endpoints of their Services, the
// listings of activators, the effect of APIRules, the ConfigMaps of settings, and an annotation of objects.
//
// All objects are read from an informer cache that the process runs anyway, without polling. Gateways and the controller watch APIRules
// in the same way, so that they agree without exchanging anything. It guarantees:
//   - apply receives the full state, first after the cache has synced and then after each change that matters, one call at a time.
//     Simultaneous changes are reported together, and a write of a status is not reported.
//   - Subscriptions that are deleted or have no valid sink are left out.
//   - Endpoints include addresses that are not ready, with the port that the Service maps to. They include no activators, and no
//     address that belongs to no pod of the Service's namespace, whatever its EndpointSlices contain: a forged slice could
//     otherwise lead a process to pods of another namespace that let that process in.
//   - When the slices of several Functions claim the same port for their activators, Listings name the Function that already had it,
//     or else the one with the oldest slice, so that a slice of one tenant takes no port of another. Reads of all
//     of them are at least 100 ms apart.
//   - A kind that the API server does not serve yet counts as a kind without objects: it delays nothing, and is noticed when it is
//     served.
//   - However often objects change, deciding on APIRules takes at most a quarter of a processor.
//   - The cache holds only those fields of each kind that are read.
package watch
