package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ScaledObjectCRD is the name of the definition of ScaledObjects.
const ScaledObjectCRD = "scaledobjects.keda.sh"

// ScaledObjectDefinition returns the kind of object by which a cache holds that definition.
func ScaledObjectDefinition() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return object
}

// KEDAInstalled reports whether the cluster serves ScaledObjects. It reads from a cache of the one definition.
func KEDAInstalled(ctx context.Context, reader client.Reader) (bool, error) {
	definition := ScaledObjectDefinition()
	err := reader.Get(ctx, client.ObjectKey{Name: ScaledObjectCRD}, definition)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("look for KEDA: %w", err)
	}
	return err == nil && definition.DeletionTimestamp.IsZero(), nil
}

// ZeroReplicas remembers that the API server has refused an HPA with minReplicas 0, as Kubernetes before 1.37 does without the feature gate
// HPAScaleToZero. Its zero value is ready to use.
type ZeroReplicas struct {
	mu sync.Mutex
	at time.Time
}

// refusedFor is the time after which the API server is asked again: an upgrade may have changed its mind.
const refusedFor = time.Hour

// Refuse records a refusal.
func (z *ZeroReplicas) Refuse(now time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.at = now
}

// Refused reports whether there was one lately.
func (z *ZeroReplicas) Refused(now time.Time) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return !z.at.IsZero() && now.Sub(z.at) < refusedFor
}
