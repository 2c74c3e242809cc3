package deploy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rouse-run/rouse/cli/exit"
)

// Objects returns what of the folder Delete deletes, in that order: those that use others first. Namespaces stay.
func (d *Deployment) Objects() []Ref {
	var refs []Ref
	for _, object := range slices.Backward(d.Folder.Objects) {
		if object.GetKind() != kindNamespace {
			refs = append(refs, object.Ref())
		}
	}
	return refs
}

// Delete deletes objects, or tries it when dry. It returns those that existed.
func (d *Deployment) Delete(ctx context.Context, refs []Ref, dry bool) ([]Result, error) {
	var results []Result
	for _, ref := range refs {
		d.Progress("deleting " + ref.String())
		existed, err := d.Cluster.Delete(ctx, ref.resource(), ref.Namespace, ref.Name, dry)
		if err != nil {
			return results, exit.Errorf(exit.CodeOf(err), "delete %s: %w", ref, err)
		}
		if existed {
			results = append(results, Result{Ref: ref, Action: Deleted})
		}
	}
	return results, nil
}

// AwaitGone returns when the objects no longer exist.
func (d *Deployment) AwaitGone(ctx context.Context, deleted []Result) error {
	for _, each := range deleted {
		for {
			found, err := d.Cluster.Get(ctx, each.resource(), each.Namespace, each.Name)
			if err == nil && (found == nil || found.GetDeletionTimestamp() == nil) { // gone, or made again
				break
			}
			d.Progress("waiting for the end of " + each.String())
			select {
			case <-ctx.Done():
				return exit.With(exit.Failed, fmt.Errorf("%s is marked for deletion and still there: %s", each, each.next()))
			case <-time.After(pollInterval):
			}
		}
	}
	return nil
}
