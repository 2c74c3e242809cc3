// Package framework contains the shared code of the end-to-end features, the demo and the benchmarks: a connection to
// the cluster that KUBECONFIG names, separate namespaces, publishing, a ledger that counts received events, and a
// recorder of changes of replicas.
//
// It accesses the cluster only through the API server (its service proxy, its log and watch endpoints), so it works on
// the local cluster and on any other. Every wait is bounded, and a failed feature dumps the information for its
// analysis.
package framework
