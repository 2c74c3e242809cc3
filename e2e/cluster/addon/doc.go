// Package addon holds what runs in the cluster beside Rouse and KEDA: CoreDNS, a registry, volumes.
package addon
