package function

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// The kinds of objects that a Function takes values from, and lives in.
const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
	kindNamespace = "Namespace"
)

// referent is an object in the Function's namespace that it takes values from.
type referent struct{ kind, name string }

func (r referent) String() string { return r.kind + "/" + r.name }

// reference is the use of a referent: of one key or, when that is empty, of all.
type reference struct {
	referent
	key      string
	optional bool
}

// referencesOf lists what the environment and the mounted Secrets refer to, in
// an order of its own.
func referencesOf(fn *v1alpha2.Function) []reference {
	var found []reference
	for _, variable := range fn.Spec.Env {
		from := variable.ValueFrom
		switch {
		case from == nil:
		case from.ConfigMapKeyRef != nil:
			ref := from.ConfigMapKeyRef
			found = append(found, reference{referent{kindConfigMap, ref.Name}, ref.Key, ptr.Deref(ref.Optional, false)})
		case from.SecretKeyRef != nil:
			ref := from.SecretKeyRef
			found = append(found, reference{referent{kindSecret, ref.Name}, ref.Key, ptr.Deref(ref.Optional, false)})
		}
	}
	for _, mount := range fn.Spec.SecretMounts {
		found = append(found, reference{referent: referent{kindSecret, mount.SecretName}})
	}
	slices.SortStableFunc(found, func(a, b reference) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.key, b.key))
	})
	return found
}

// followsConfiguration reports whether the user wants a changed ConfigMap or
// Secret to replace the pods.
func followsConfiguration(fn *v1alpha2.Function) bool {
	return fn.Annotations[v1alpha2.AnnotationRestartOnChange] == "true"
}

// indexReferences is what referenceIndex knows of a Function.
func indexReferences(object client.Object) []string {
	fn, ok := object.(*v1alpha2.Function)
	if !ok || !followsConfiguration(fn) {
		return nil
	}
	var values []string
	for _, ref := range referencesOf(fn) {
		values = append(values, ref.String())
	}
	return slices.Compact(values)
}

// followers finds the Functions that follow an object of a kind.
func followers(reader client.Reader, kind string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		functions := &v1alpha2.FunctionList{}
		err := reader.List(ctx, functions, client.InNamespace(object.GetNamespace()),
			client.MatchingFields{referenceIndex: referent{kind, object.GetName()}.String()}, client.UnsafeDisableDeepCopy)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list the functions that follow an object")
			return nil
		}
		requests := make([]reconcile.Request, 0, len(functions.Items))
		for i := range functions.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&functions.Items[i])})
		}
		return requests
	})
}

// metadataOf is an empty object of a kind of which only metadata is read.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}
