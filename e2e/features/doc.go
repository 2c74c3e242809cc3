// Package features contains the end-to-end features: the guarantees of Rouse, verified on a real cluster. Build tag
// e2e; KUBECONFIG names the cluster. Run them with "make test-e2e".
package features
