// Package keda installs KEDA from the manifests of its own Go module, with what is particular to the local cluster
// laid over them: images that are already there, certificates of our own, quicker probes and a faster client.
package keda
