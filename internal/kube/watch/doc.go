// Package watch reports to the data plane what Kubernetes knows: which Subscriptions there are, and where their
// Services can be reached.
//
// Everything is read from an informer cache that the process runs anyway; nothing is polled. Guarantees:
//   - apply gets the full picture, first after the cache is in step and then after each change that
//     matters, one call at a time. Changes that come together are reported together.
//   - The Subscriptions that are deleted or lead nowhere are left out.
//   - Endpoints hold addresses that are not ready too, with the port that the Service maps to.
package watch
