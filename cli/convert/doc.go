// Package convert implements `rouse convert` and its hidden alias `rouse migrate apirule`: it rewrites manifests of old API versions, Functions
// of v1alpha1 with their GitRepositories and APIRules of v1beta1 and v1alpha1, as the versions that Rouse serves.
//
// It guarantees that
//   - objects that need no conversion pass byte for byte, in their place and order, with their comments;
//   - an object that cannot be converted as a whole, or that the API server or the controller would refuse, is left out and reported
//     with its fields;
//   - each change of meaning is reported with its field and the remedy;
//   - it reads at most MaxInput bytes, contacts no cluster and overwrites no file.
package convert
