package kube

import (
	"maps"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// ChangedOrDiffers passes creations and deletions, updates that touch more than
// an object's status, and updates for which differs is true. It is for owned
// objects whose status changes often and rarely matters.
func ChangedOrDiffers(differs func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return metadataChanged(e.ObjectOld, e.ObjectNew) || differs(e.ObjectOld, e.ObjectNew)
		},
	}
}

// metadataChanged reports whether more than the status differs. The generation
// stands for the spec.
func metadataChanged(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() ||
		before.GetGeneration() != after.GetGeneration() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!reflect.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}
