package kube

import (
	"fmt"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// NewCache is a cache of the cluster's objects for processes that only read: what is asked for is watched. It reads
// the cluster that the pod runs in, or that KUBECONFIG names.
func NewCache(logger logr.Logger) (cache.Cache, error) {
	SetLogger(logger)
	rest, scheme, err := Cluster()
	if err != nil {
		return nil, err
	}
	objects, err := cache.New(rest, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	return objects, nil
}
