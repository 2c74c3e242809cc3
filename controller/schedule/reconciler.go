package schedule

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/schedule"
)

// Cursors are what bridges have published.
type Cursors interface {
	// Cursor reads the cursor of a Schedule; one without has a zero cursor.
	Cursor(ctx context.Context, uid string) (broker.Cursor, error)
	// CursorUIDs lists the Schedules that have cursors, and DeleteCursor deletes one.
	CursorUIDs(ctx context.Context) ([]string, error)
	DeleteCursor(ctx context.Context, uid string) error
}

const (
	// The status is written again when something was due, but not more often than once a minute nor less than once an hour.
	shortestInterval = time.Minute
	longestInterval  = time.Hour
	// afterDue is how long after a due time the cursor is read, and unreadInterval is between tries while NATS is away.
	afterDue       = 2 * time.Second
	unreadInterval = 10 * time.Second
)

// Reconciler writes the status of Schedules.
type Reconciler struct {
	client   client.Client
	cursors  Cursors
	recorder events.EventRecorder
	share    schedule.Share
	access   routing.Access
	clock    clock.PassiveClock
}

// Reconcile implements reconcile.Reconciler for a Schedule.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	found := &v1alpha1.Schedule{}
	if err := r.client.Get(ctx, request.NamespacedName, found); err != nil || found.DeletionTimestamp != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			return ctrl.Result{}, fmt.Errorf("get Schedule %s: %w", request, err)
		}
		return ctrl.Result{}, nil
	}
	state, err := r.observe(ctx, found)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := found.DeepCopy()
	now := r.clock.Now()
	setStatus(found, state, now)
	if err := kube.PatchStatus(ctx, r.client, before, found); err != nil {
		return kube.Result(err)
	}
	kube.RecordTransitions(r.recorder, found, "Schedule", before.Status.Conditions, found.Status.Conditions, v1alpha1.ReasonPaused, v1alpha1.ReasonFinished)
	return ctrl.Result{RequeueAfter: interval(found, state, now)}, nil
}

// observe reads what the status depends on.
func (r *Reconciler) observe(ctx context.Context, s *v1alpha1.Schedule) (state, error) {
	var found state
	found.plan, found.invalid = schedule.New(s)
	of := &v1alpha1.ScheduleList{}
	if err := r.client.List(ctx, of, client.InNamespace(s.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return found, fmt.Errorf("list the Schedules of namespace %s: %w", s.Namespace, err)
	}
	all := make([]*v1alpha1.Schedule, len(of.Items))
	for i := range of.Items {
		all[i] = &of.Items[i]
	}
	found.over = r.share.Over(all)[string(s.UID)]
	if found.invalid == nil {
		ev := schedule.Event(s, schedule.Tick{})
		found.forbidden = r.access.MayPublish(s.Namespace, "", ev.Source, ev.Type, "")
	}
	found.cursor, found.unread = r.cursors.Cursor(ctx, string(s.UID))
	return found, nil
}

// interval is until the status is computed again.
func interval(s *v1alpha1.Schedule, found state, now time.Time) time.Duration {
	switch {
	case found.unread != nil:
		return unreadInterval
	case len(s.Status.NextDue) == 0:
		return longestInterval
	default:
		return min(max(s.Status.NextDue[0].Sub(now)+afterDue, shortestInterval), longestInterval)
	}
}
