// Package controlplane says how etcd, the API server, the controller manager and the scheduler are started.
package controlplane
