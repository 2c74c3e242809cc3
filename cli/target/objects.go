package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/exit"
)

// The field managers of a command line.
const (
	// ApplyManager owns the fields of applied objects.
	ApplyManager = "rouse-cli"
	// FormManager owns the fields that forms of the dashboard set. Of an object that was applied they are few, and the others stay.
	FormManager = "rouse-dashboard"
	// patchManager owns the fields that single commands change, such as spec.paused.
	patchManager = "rouse-cli-patch"
)

// Objects reads and writes objects of a cluster.
type Objects struct{ cluster *cluster }

// Objects returns the objects of a cluster. Local mode has none: it runs files.
func (c *Connection) Objects() (*Objects, error) {
	if found, ok := c.Target.(*cluster); ok {
		return &Objects{found}, nil
	}
	return nil, exit.Errorf(exit.Usage, "this is for a cluster: name one with --context or --kubeconfig; kubectl config get-contexts lists them")
}

// Served returns an error unless the cluster serves a resource of a kind.
func (o *Objects) Served(ctx context.Context, resource schema.GroupVersionResource, kind string) error {
	if resource.Group == "" {
		return nil
	}
	served, err := o.cluster.served(ctx, resource)
	if err != nil {
		return err
	}
	if slices.Contains(served, resource.Version) {
		return nil
	}
	return o.cluster.notServed(ctx, kind+"s", resource)
}

// Get returns an object, nil if it does not exist.
func (o *Objects) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	found, err := o.cluster.objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, o.explain(err, "get", resource, namespace)
	}
	return found, nil
}

// List returns the objects of a namespace with a label.
func (o *Objects) List(ctx context.Context, resource schema.GroupVersionResource, namespace, selector string) ([]unstructured.Unstructured, error) {
	list, err := o.cluster.objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsNotFound(err) {
		return nil, nil // the resource is not served
	}
	if err != nil {
		return nil, o.explain(err, "list", resource, namespace)
	}
	return list.Items, nil
}

// objectPage is how many objects are read at a time. Deployments of Kyma have the source of a Function, up to 128 KiB.
const objectPage = 100

// Each calls do with each object of a resource, in a namespace or in all for "". It reads pages, and refuses a cluster with more than
// most of them. A resource that the cluster does not serve has none.
func (o *Objects) Each(
	ctx context.Context, resource schema.GroupVersionResource, namespace, selector string, most int, do func(*unstructured.Unstructured) error,
) error {
	options, read := metav1.ListOptions{LabelSelector: selector, Limit: objectPage}, 0
	for {
		list, err := o.cluster.objects.Resource(resource).Namespace(namespace).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return o.explain(err, "list", resource, namespace)
		}
		if read += len(list.Items); read > most {
			return exit.Errorf(exit.Refused, "%s has more than %d %s: this command does not handle as many", o.cluster.name, most, resource.Resource)
		}
		for i := range list.Items {
			if err := do(&list.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// DeleteExactly deletes the object with this UID, and no other of its name. One that does not exist is no error.
func (o *Objects) DeleteExactly(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, uid types.UID) error {
	options := metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{UID: &uid},
	}
	err := o.cluster.objects.Resource(resource).Namespace(namespace).Delete(ctx, name, options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return o.explain(err, "delete", resource, namespace)
}

// Apply applies an object, or tries it when dry. With force it takes fields over that other managers own.
func (o *Objects) Apply(
	ctx context.Context, resource schema.GroupVersionResource, object *unstructured.Unstructured, dry, force bool,
) (*unstructured.Unstructured, error) {
	return o.ApplyAs(ctx, ApplyManager, resource, object, dry, force)
}

// ApplyAs is Apply by a field manager.
func (o *Objects) ApplyAs(
	ctx context.Context, manager string, resource schema.GroupVersionResource, object *unstructured.Unstructured, dry, force bool,
) (*unstructured.Unstructured, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	options := metav1.PatchOptions{FieldManager: manager, Force: &force, FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	applied, err := o.cluster.objects.Resource(resource).Namespace(object.GetNamespace()).
		Patch(ctx, object.GetName(), types.ApplyPatchType, content, options)
	return applied, o.explain(err, "patch", resource, object.GetNamespace())
}

// Merge changes single fields of an object.
func (o *Objects) Merge(ctx context.Context, resource schema.GroupVersionResource, namespace, name, patch string) (*unstructured.Unstructured, error) {
	changed, err := o.cluster.objects.Resource(resource).Namespace(namespace).
		Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: patchManager})
	return changed, o.explain(err, "patch", resource, namespace)
}

// Delete deletes an object. existed is false if there was none.
func (o *Objects) Delete(
	ctx context.Context, resource schema.GroupVersionResource, namespace, name string, dry bool,
) (existed bool, err error) {
	options := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	err = o.cluster.objects.Resource(resource).Namespace(namespace).Delete(ctx, name, options)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, o.explain(err, "delete", resource, namespace)
}

// missingRight finds the verb and the resource in an error of RBAC. Others, such as a quota, have another text.
var missingRight = regexp.MustCompile(`cannot (\w+) resource "([^"]+)"`)

// explain adds the missing right, object or decision to an error of the API server.
func (o *Objects) explain(err error, verb string, resource schema.GroupVersionResource, namespace string) error {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case err == nil:
		return nil
	case !answered:
		return o.cluster.explain(err, verb, resource.Resource, namespace)
	case apierrors.IsForbidden(err):
		// A denied apply of a new object is about the verb create.
		if match := missingRight.FindStringSubmatch(status.ErrStatus.Message); match != nil {
			return o.cluster.explain(err, match[1], match[2], namespace)
		}
		return exit.Errorf(exit.Refused, "%w", err)
	case apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces":
		return exit.Errorf(exit.NotFound, "there is no namespace %s: make it with kubectl create namespace %[1]s, or add its manifest", namespace)
	case apierrors.IsConflict(err):
		return exit.Errorf(exit.Refused, "%w; leave the field out, or take it over with --force-conflicts", err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return exit.Errorf(exit.Refused, "%w", err)
	}
	return o.cluster.explain(err, verb, resource.Resource, namespace)
}
