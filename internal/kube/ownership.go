package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ForeignError says that an object of the wanted name belongs to another owner.
type ForeignError struct {
	// Kind and Name are the object's.
	Kind, Name string
	// Owner describes whose it is.
	Owner string
}

// Error says whose the object is and what to do about it.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s already exists and belongs to %s; it is left as it is. Delete it or choose another name",
		e.Kind, e.Name, e.Owner)
}

// PredecessorError says that an object of the wanted name belonged to an
// earlier object of the owner's name and is about to be garbage collected.
type PredecessorError struct {
	// Kind and Name are the object's.
	Kind, Name string
}

// Error says what is waited for.
func (e *PredecessorError) Error() string {
	return fmt.Sprintf("%s %s of the deleted predecessor is still being removed", e.Kind, e.Name)
}

// CheckOwner reports whether object may be written on behalf of owner, which is
// of the given kind. It returns a *ForeignError or a *PredecessorError if not.
func CheckOwner(object metav1.Object, objectKind string, owner metav1.Object, ownerKind schema.GroupKind) error {
	controller := metav1.GetControllerOf(object)
	switch {
	case controller == nil:
		return &ForeignError{Kind: objectKind, Name: object.GetName(), Owner: describeOwner(object)}
	case controller.UID == owner.GetUID():
		return nil
	case schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind() == ownerKind &&
		controller.Name == owner.GetName():
		return &PredecessorError{Kind: objectKind, Name: object.GetName()}
	default:
		return &ForeignError{
			Kind: objectKind, Name: object.GetName(), Owner: controller.Kind + " " + controller.Name,
		}
	}
}

// describeOwner finds a name for the owner of an object without a controller.
func describeOwner(object metav1.Object) string {
	if owners := object.GetOwnerReferences(); len(owners) > 0 {
		return owners[0].Kind + " " + owners[0].Name
	}
	if release := object.GetAnnotations()["meta.helm.sh/release-name"]; release != "" {
		return "Helm release " + release
	}
	if manager := object.GetLabels()["app.kubernetes.io/managed-by"]; manager != "" {
		return manager + " (its label app.kubernetes.io/managed-by)"
	}
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" {
			return "no controller (it was written by " + entry.Manager + ")"
		}
	}
	return "no controller (it has no owner)"
}
