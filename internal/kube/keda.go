package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
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

// kedaDelay is the delay before KEDA is tried again while it is being installed or removed.
const kedaDelay = 2 * time.Second

// ErrNoKEDA means that the API server does not serve ScaledObjects.
var ErrNoKEDA = errors.New("the API server does not serve ScaledObjects yet, or no longer")

// WaitingForKEDA returns ErrNoKEDA with the delay after which it is tried again.
func WaitingForKEDA() error { return Waiting(ErrNoKEDA, kedaDelay) }

// ZeroReplicas remembers that the API server has refused an HPA with minReplicas 0, as Kubernetes before 1.37 does without the feature gate
// HPAScaleToZero. Its zero value is ready to use.
type ZeroReplicas struct {
	mu sync.Mutex
	at time.Time
}

// refusedFor is the time after which the API server is asked again: an upgrade may have changed its mind.
const refusedFor = time.Hour

// Apply applies an HPA that keeps at least low replicas, or one where the API server lets none go to zero. It returns what the HPA keeps.
func (z *ZeroReplicas) Apply(low int32, now time.Time, apply func(low int32) error) (kept int32, err error) {
	if low == 0 && z.Refused(now) {
		low = 1
	}
	err = apply(low)
	if low > 0 || !apierrors.IsInvalid(err) {
		return low, err
	}
	z.mu.Lock()
	z.at = now
	z.mu.Unlock()
	return 1, apply(1)
}

// Refused reports whether there was a refusal lately.
func (z *ZeroReplicas) Refused(now time.Time) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return !z.at.IsZero() && now.Sub(z.at) < refusedFor
}

// SetReplicas sets the replicas of a workload unless someone else has written it since it was read.
func SetReplicas(ctx context.Context, writer client.Client, workload client.Object, replicas int32) error {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: workload.GetNamespace(), Name: workload.GetName(), ResourceVersion: workload.GetResourceVersion()},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	if err := writer.SubResource("scale").Update(ctx, workload, client.WithSubResourceBody(scale)); err != nil {
		return fmt.Errorf("set the replicas of %s: %w", workload.GetName(), err)
	}
	return nil
}
