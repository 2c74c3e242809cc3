// Package local brings a Kubernetes of one or several nodes up on this machine, with CoreDNS, a registry, volumes, KEDA and, where it is
// asked for, Envoy Gateway, and takes it down again. What the cluster is for is a Workload, which is built while the cluster is and
// installed when it runs.
//
// Up changes nothing that runs already but what is missing or differs; a cluster that could not be brought up is taken down. Down
// removes everything and then looks for leftovers.
package local
