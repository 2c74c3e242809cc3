package function

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// scaledObjectCRD is the name of the definition of ScaledObjects.
const scaledObjectCRD = "scaledobjects.keda.sh"

// conflictText is how the API server words that an object was changed meanwhile.
const conflictText = "the object has been modified"

// keda is what a reconciliation asks about KEDA.
type keda struct {
	// installed reports whether the cluster knows ScaledObjects.
	installed func(context.Context) (bool, error)
	// scaledObject reads one.
	scaledObject func(context.Context, client.ObjectKey) (*resources.LiveScaledObject, error)
}

// liveScaledObjects reads them from a cache.
func liveScaledObjects(reader client.Reader) func(context.Context, client.ObjectKey) (*resources.LiveScaledObject, error) {
	return func(ctx context.Context, key client.ObjectKey) (*resources.LiveScaledObject, error) {
		object := &resources.LiveScaledObject{}
		err := reader.Get(ctx, key, object)
		return object, err
	}
}

// crdKind is the kind of the one definition that is watched.
func crdKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

func crd() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(crdKind())
	return object
}

func scaledObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(resources.ScaledObjectKind())
	return object
}

// kedaWatch watches ScaledObjects for as long as the cluster knows them. A
// watch that begins before would bring the process down.
type kedaWatch struct {
	client     client.Client
	cache      cache.Cache
	controller controller.Controller

	mu      sync.Mutex
	running bool
}

// installed looks for the CRD, and begins or ends the watch accordingly.
func (w *kedaWatch) installed(ctx context.Context) (bool, error) {
	installed, err := KEDAInstalled(ctx, w.client)
	if err != nil {
		return false, err
	}
	return installed, w.follow(ctx, installed)
}

// KEDAInstalled reports whether the cluster knows ScaledObjects. It reads from a cache as CacheObjects limits it.
func KEDAInstalled(ctx context.Context, reader client.Reader) (bool, error) {
	definition := crd()
	err := reader.Get(ctx, client.ObjectKey{Name: scaledObjectCRD}, definition)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("look for KEDA: %w", err)
	}
	return err == nil && definition.DeletionTimestamp.IsZero(), nil
}

func (w *kedaWatch) follow(ctx context.Context, installed bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case installed && !w.running:
		owner := handler.TypedEnqueueRequestForOwner[client.Object](
			w.client.Scheme(), w.client.RESTMapper(), &v1alpha2.Function{}, handler.OnlyControllerOwner())
		err := w.controller.Watch(source.Kind[client.Object](w.cache, &resources.LiveScaledObject{}, owner, kube.ChangedOrDiffers(readinessDiffers)))
		if err != nil {
			return fmt.Errorf("watch ScaledObjects: %w", err)
		}
		w.running = true
	case !installed && w.running:
		if err := w.cache.RemoveInformer(ctx, &resources.LiveScaledObject{}); err != nil {
			return fmt.Errorf("end the watch of ScaledObjects: %w", err)
		}
		w.running = false
	}
	return nil
}

// readinessDiffers reports whether KEDA changed its mind about a ScaledObject. It
// writes the status at every sign of life, which says nothing new.
func readinessDiffers(before, after client.Object) bool {
	was, _ := before.(*resources.LiveScaledObject)
	is, _ := after.(*resources.LiveScaledObject)
	return was == nil || is == nil || readiness(was) != readiness(is)
}

// ready is KEDA's Ready condition.
type ready struct{ status, message string }

// isConflict reports whether KEDA's write met another one, such as our apply.
// KEDA repeats it at once, and its condition says so as if it could not scale.
func (r ready) isConflict() bool {
	return r.status == string(metav1.ConditionFalse) && strings.Contains(r.message, conflictText)
}

func readiness(object *resources.LiveScaledObject) ready {
	for _, condition := range object.Status.Conditions {
		if condition.Type == "Ready" {
			return ready{status: condition.Status, message: condition.Message}
		}
	}
	return ready{}
}
