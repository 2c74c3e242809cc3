package kube

import (
	"context"
	"fmt"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus writes the difference between the status of before and after,
// which are two states of one object. No difference costs no request, and an
// object that is gone is no error. One that was changed since it was read is a
// conflict: the status may follow from what it was before.
func PatchStatus(ctx context.Context, c client.StatusClient, before, after client.Object) error {
	data, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return fmt.Errorf("compare status of %q: %w", client.ObjectKeyFromObject(after), err)
	}
	if string(data) == "{}" {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	// The answer would overwrite after; a copy keeps the caller's object.
	written, ok := after.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("patch status: %s is no object", reflect.TypeOf(after))
	}
	if err := c.Status().Patch(ctx, written, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of %q: %w", client.ObjectKeyFromObject(after), err)
	}
	return nil
}
