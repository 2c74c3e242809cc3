// Package deploy brings the objects of a folder into a cluster, shows how the two differ, and takes the objects out again.
//
// It owns the folder's label, the order of kinds, and the wait until objects are ready. It guarantees:
//
//   - Nothing is applied unless the API server accepts every object in a dry run.
//   - Only objects with the label of the folder, of kinds that a folder deploys, are pruned; Secrets and Namespaces never are.
//   - A Namespace is created when it is missing, and neither changed nor deleted.
//   - No value of a Secret is in a difference or an error of this package.
package deploy
