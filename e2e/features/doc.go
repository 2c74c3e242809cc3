// Package features holds the end-to-end features: what Rouse promises, shown on a real cluster. Build tag e2e;
// KUBECONFIG names the cluster. Run them with "make test-e2e".
package features
