package kube

import (
	"fmt"
	"maps"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCache is a cache of the cluster's objects for processes that only read: what is asked for is watched. It reads
// the cluster that the pod runs in, or that KUBECONFIG names. It leaves annotations out, but of kinds that have a transform of
// their own.
func NewCache(logger logr.Logger, kinds ...map[client.Object]cache.ByObject) (cache.Cache, error) {
	SetLogger(logger)
	rest, scheme, err := Cluster()
	if err != nil {
		return nil, err
	}
	options := cache.Options{Scheme: scheme, DefaultTransform: withoutAnnotations, ByObject: map[client.Object]cache.ByObject{}}
	for _, kind := range kinds {
		maps.Copy(options.ByObject, kind)
	}
	objects, err := cache.New(rest, options)
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	return objects, nil
}

// WithoutManagedFields is a transform for a cache of objects that are not applied: it leaves out what the API server says of
// their fields, and the copy of the whole object that kubectl apply leaves in an annotation.
func WithoutManagedFields(object any) (any, error) {
	if known, err := meta.Accessor(object); err == nil {
		known.SetManagedFields(nil)
		if annotations := known.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
			delete(annotations, corev1.LastAppliedConfigAnnotation)
			known.SetAnnotations(annotations)
		}
	}
	return object, nil
}

// withoutAnnotations leaves out of an object what its owner may fill with 256 KiB, and what the API server says of its fields.
func withoutAnnotations(object any) (any, error) {
	if known, err := meta.Accessor(object); err == nil {
		known.SetAnnotations(nil)
		known.SetManagedFields(nil)
	}
	return object, nil
}
