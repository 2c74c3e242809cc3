// Package kind brings up the cluster of the end-to-end tests with kind (https://kind.sigs.k8s.io), on a machine with Docker.
//
// Only Kubernetes itself and the way to images differ from package local: images are built by the project's Dockerfiles, and KEDA and
// what the chart runs beside Rouse come from their registries. It needs no root, and leaves a directory of its own in the cache and
// one container, which down takes away.
//
// What is asked of docker, kind and kubectl is made by pure functions (config.go, images.go); cluster.go runs it.
package kind
