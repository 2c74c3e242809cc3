package deploy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
)

// Cluster reads and writes the objects of a cluster.
type Cluster interface {
	// Served returns an error unless the cluster serves a resource of a kind.
	Served(ctx context.Context, resource schema.GroupVersionResource, kind string) error
	// Get returns an object, nil if it does not exist.
	Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error)
	// List returns the objects of a namespace with a label.
	List(ctx context.Context, resource schema.GroupVersionResource, namespace, selector string) ([]unstructured.Unstructured, error)
	// Apply applies an object, or tries it when dry. With force it takes over fields of other managers.
	Apply(
		ctx context.Context, resource schema.GroupVersionResource, object *unstructured.Unstructured, dry, force bool,
	) (*unstructured.Unstructured, error)
	// Delete deletes an object. existed is false if there was none.
	Delete(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, dry bool) (existed bool, err error)
	// BuildLog calls handle with the lines of a Function's builds, until ctx ends.
	BuildLog(ctx context.Context, namespace, name string, handle func(target.Line)) error
}

// Deployment is a folder on its way into a cluster, or out of it.
type Deployment struct {
	Cluster Cluster
	Folder  Folder
	// Force takes over fields that other managers own.
	Force bool
	// Poll is the interval at which objects are looked at; 0 for one that suits builds.
	Poll time.Duration
	// Note is called with messages for the user, Progress with what is waited for, and Log with the lines of builds.
	Note     func(text string)
	Progress func(text string)
	Log      func(target.Line)
}

// What became of an object.
const (
	Created    = "created"
	Configured = "configured"
	Unchanged  = "unchanged"
	Deleted    = "deleted"
)

// Change is an object of the folder before and after it is applied.
type Change struct {
	Object Object
	// Live is the object in the cluster, nil when it is created.
	Live *unstructured.Unstructured
	// Next is what it would become, nil when that cannot be tried, because its namespace does not exist yet.
	Next *unstructured.Unstructured
}

// Action returns what becomes of the object.
func (c Change) Action() string {
	switch {
	case c.Live == nil:
		return Created
	case equality.Semantic.DeepEqual(withoutServerFields(c.Live), withoutServerFields(c.Next)):
		return Unchanged
	}
	return Configured
}

// withoutServerFields returns the object without what a cluster writes into it, and without the Label.
func withoutServerFields(object *unstructured.Unstructured) map[string]any {
	copied := object.DeepCopy().Object
	unstructured.RemoveNestedField(copied, "status")
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		unstructured.RemoveNestedField(copied, "metadata", field)
	}
	unstructured.RemoveNestedField(copied, "metadata", "labels", Label)
	for _, field := range []string{"labels", "annotations"} {
		if left, found, _ := unstructured.NestedMap(copied, "metadata", field); found && len(left) == 0 {
			unstructured.RemoveNestedField(copied, "metadata", field)
		}
	}
	return copied
}

// Check tries all objects in the cluster without a change. It notes what is wrong with each.
func (d *Deployment) Check(ctx context.Context) ([]Change, error) {
	if err := d.served(ctx); err != nil {
		return nil, err
	}
	var changes []Change
	var first error
	refused, absent := 0, map[string]bool{}
	for _, object := range d.Folder.Objects {
		d.Progress("trying " + object.Ref().String())
		change, err := d.try(ctx, object, absent)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			d.Note(object.at(err))
			if refused++; first == nil {
				first = err
			}
			continue
		}
		changes = append(changes, change)
	}
	if first != nil {
		return nil, exit.Errorf(exit.CodeOf(first), "the cluster refuses %d of %d objects: nothing was changed", refused, len(d.Folder.Objects))
	}
	return changes, nil
}

// served returns an error unless the cluster knows the kinds of the folder.
func (d *Deployment) served(ctx context.Context) error {
	seen := map[schema.GroupVersionKind]bool{}
	for _, object := range d.Folder.Objects {
		gvk := object.GroupVersionKind()
		if seen[gvk] {
			continue
		}
		seen[gvk] = true
		if err := d.Cluster.Served(ctx, resourceOf(gvk), gvk.Kind); err != nil {
			return err
		}
	}
	return nil
}

// try applies an object in a dry run. absent holds the namespaces that the folder creates.
func (d *Deployment) try(ctx context.Context, object Object, absent map[string]bool) (Change, error) {
	resource := resourceOf(object.GroupVersionKind())
	if object.GetKind() == kindNamespace {
		if d.exists(ctx, object.GetName()) {
			return Change{object, object.Unstructured, object.Unstructured}, nil
		}
		absent[object.GetName()] = true
	}
	live, err := d.Cluster.Get(ctx, resource, object.GetNamespace(), object.GetName())
	if err != nil || absent[object.GetNamespace()] {
		return Change{Object: object}, err
	}
	next, err := d.Cluster.Apply(ctx, resource, object.Unstructured, true, d.Force)
	return Change{object, live, next}, err
}

// exists reports whether a namespace exists. Who may not read it finds out by the objects in it.
func (d *Deployment) exists(ctx context.Context, namespace string) bool {
	found, err := d.Cluster.Get(ctx, kinds()[rank(kindNamespace)].gvr(), "", namespace)
	return err != nil || found != nil
}

// Result is what became of an object.
type Result struct {
	Ref

	Action  string `json:"action"`
	State   string `json:"state,omitempty"`
	Message string `json:"message,omitempty"`
	Address string `json:"address,omitempty"`

	// applied is the newest known state.
	applied *unstructured.Unstructured
}

// Apply applies the objects that Check has tried, in order.
func (d *Deployment) Apply(ctx context.Context, changes []Change) ([]Result, error) {
	results := make([]Result, 0, len(changes))
	for _, change := range changes {
		ref := change.Object.Ref()
		if ref.Kind == kindNamespace && change.Live != nil {
			results = append(results, Result{Ref: ref, Action: Unchanged})
			continue
		}
		d.Progress("applying " + ref.String())
		applied, err := d.Cluster.Apply(ctx, resourceOf(change.Object.GroupVersionKind()), change.Object.Unstructured, false, d.Force)
		if err != nil {
			return results, exit.Errorf(exit.CodeOf(err), "apply %s: %w; %d of %d objects were applied: deploy again for the others",
				ref, err, len(results), len(changes))
		}
		if before := formerFolder(change.Live); before != "" && before != d.Folder.ID {
			d.Note(fmt.Sprintf("%s was deployed from %s before, and is from %s now", ref, before, d.Folder.ID))
		}
		change.Next = applied
		results = append(results, Result{Ref: ref, Action: change.Action(), applied: applied})
	}
	return results, nil
}

// formerFolder returns the Label of an object.
func formerFolder(object *unstructured.Unstructured) string {
	if object == nil {
		return ""
	}
	return object.GetLabels()[Label]
}

// Leftovers returns the objects in the namespaces of the folder that were deployed from it and are no longer in it. Secrets are left out:
// that would take the right to read all of them.
func (d *Deployment) Leftovers(ctx context.Context) ([]Ref, error) {
	present := map[Ref]bool{}
	for _, object := range d.Folder.Objects {
		present[object.Ref()] = true
	}
	var left []Ref
	for _, each := range slices.Backward(kinds()) {
		if !each.pruned {
			continue
		}
		for _, namespace := range d.Folder.Namespaces() {
			found, err := d.Cluster.List(ctx, each.gvr(), namespace, Label+"="+d.Folder.ID)
			if err != nil {
				return nil, err
			}
			for i := range found {
				ref := Ref{Kind: each.name, Namespace: namespace, Name: found[i].GetName()}
				if !present[ref] && found[i].GetDeletionTimestamp() == nil && wasApplied(&found[i]) {
					left = append(left, ref)
				}
			}
		}
	}
	return left, nil
}

// wasApplied reports whether a deploy has applied the object: a label alone can be copied along with a manifest.
func wasApplied(object *unstructured.Unstructured) bool {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == target.ApplyManager && entry.Operation == "Apply" {
			return true
		}
	}
	return false
}

func (k kind) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: k.version, Resource: k.resource}
}
