package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

// Schedules watches the Schedules of the cluster.
type Schedules struct{ cache cache.Cache }

// NewSchedules returns Schedules that are read from c.
func NewSchedules(c cache.Cache) *Schedules { return &Schedules{cache: c} }

// Watch calls apply with all Schedules, sorted by name, until ctx ends. Nobody may change them. While the cluster does not know the
// kind, there are none.
func (s *Schedules) Watch(ctx context.Context, apply func([]*rousev1alpha1.Schedule)) error {
	changed := newSignal()
	remove, inStep, err := onChange(ctx, s.cache, &rousev1alpha1.Schedule{}, func(before, after any) {
		if mayReschedule(before, after) {
			changed.raise()
		}
	})
	if meta.IsNoMatchError(err) {
		awaitKind(ctx)
		return nil
	}
	if err != nil {
		return err
	}
	defer remove()
	if ok, err := awaitSync(ctx, s.cache, inStep); !ok {
		return err
	}
	return follow(ctx, changed, s.read, apply)
}

// awaitKind waits until a kind that the cluster does not know is looked up again.
func awaitKind(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(retry):
	}
}

// mayReschedule ignores updates of the status.
func mayReschedule(before, after any) bool {
	old, ok := before.(*rousev1alpha1.Schedule)
	if !ok {
		return true
	}
	updated, ok := after.(*rousev1alpha1.Schedule)
	return !ok || old.Generation != updated.Generation || old.UID != updated.UID ||
		old.DeletionTimestamp.IsZero() != updated.DeletionTimestamp.IsZero()
}

func (s *Schedules) read(ctx context.Context) ([]*rousev1alpha1.Schedule, error) {
	var list rousev1alpha1.ScheduleList
	if err := s.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Schedules: %w", err)
	}
	all := pointers(list.Items)
	slices.SortFunc(all, func(a, b *rousev1alpha1.Schedule) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all, nil
}
