// Package watch reports to the data plane what Kubernetes knows: which Subscriptions there are, where their
// Services can be reached, and where the activators of Functions are listed. Beside that it follows the ConfigMap of settings, and
// an annotation of objects.
//
// Everything is read from an informer cache that the process runs anyway; nothing is polled. Guarantees:
//   - apply gets the full picture, first after the cache is in step and then after each change that
//     matters, one call at a time. Changes that come together are reported together.
//   - The Subscriptions that are deleted or lead nowhere are left out.
//   - Endpoints hold addresses that are not ready too, with the port that the Service maps to. Activators are not among
//     them, nor is any address that no pod of the Service's namespace has, whatever its slices say: who may write those could
//     lead a process to pods of another namespace, which let that process in. It takes as long as the later of slice and pod.
//   - Of the Functions whose slices claim the same port for their activators, Listings name the one that has it already, or
//     else the one whose slice is the oldest, so that a slice that a tenant writes takes no port of another's. Reads of all
//     of them are at least 100 ms apart.
//
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
package watch
