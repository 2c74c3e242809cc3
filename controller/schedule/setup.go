package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/schedule"
)

// maxConcurrentReconciles bounds the Schedules that are worked on at a time.
const maxConcurrentReconciles = 4

// Setup adds the controller to a manager. It runs on the leader, and begins when the API server serves Schedules.
func Setup(mgr ctrl.Manager, cursors Cursors, share schedule.Share, access routing.Access) error {
	r := &Reconciler{
		client: mgr.GetClient(), cursors: cursors, recorder: mgr.GetEventRecorder("schedules"), share: share, access: access, clock: clock.RealClock{},
	}
	start := func() error {
		err := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
			Named("schedule").
			For(&v1alpha1.Schedule{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			Complete(r)
		if err == nil {
			err = mgr.Add(&sweeper{live: mgr.GetAPIReader(), cursors: cursors, log: mgr.GetLogger().WithName("schedules")})
		}
		if err != nil {
			return fmt.Errorf("set up the controller of Schedules: %w", err)
		}
		return nil
	}
	return kube.WhenServed(mgr, v1alpha1.GroupVersion.WithKind("Schedule"), start)
}

// sweepInterval is between looks for cursors whose Schedules are gone.
const sweepInterval = 10 * time.Minute

// sweeper deletes the cursors of Schedules that are gone.
type sweeper struct {
	live    client.Reader
	cursors Cursors
	log     logr.Logger
}

// Start implements manager.Runnable.
func (s *sweeper) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepInterval):
		}
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Info("cannot delete the cursors of deleted Schedules yet", "reason", err.Error())
		}
	}
}

// sweep lists the cursors first: a Schedule that is made meanwhile has none of them.
func (s *sweeper) sweep(ctx context.Context) error {
	uids, err := s.cursors.CursorUIDs(ctx)
	if err != nil || len(uids) == 0 {
		return err
	}
	all := &v1alpha1.ScheduleList{}
	if err := s.live.List(ctx, all); err != nil {
		return fmt.Errorf("list Schedules: %w", err)
	}
	present := make(map[string]bool, len(all.Items))
	for i := range all.Items {
		present[string(all.Items[i].UID)] = true
	}
	for _, uid := range uids {
		if present[uid] {
			continue
		}
		if err := s.cursors.DeleteCursor(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}
