// Package framework is what the end-to-end features, the demo and the benchmarks share: a connection to the
// cluster that KUBECONFIG names, namespaces of their own, publishing, a ledger that counts what arrived, and
// a record of how replicas moved.
//
// It reaches everything inside the cluster through the API server (its service proxy, its log and watch
// endpoints), so it works on the local cluster and on any other. Every wait is bounded, and a failed feature
// dumps what is needed to understand it.
package framework
