// Package local starts a Kubernetes of one or several nodes on this machine, with CoreDNS, a registry, volumes, KEDA
// and optionally Envoy Gateway, and removes it. The software under test is a Workload, which is built while the cluster
// starts and installed once it runs.
//
// Up changes only missing or different parts of a running cluster; a cluster that fails to start is removed. Down
// removes everything and then checks for leftovers.
package local
