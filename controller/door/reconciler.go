package door

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/controller/apirules"
	"github.com/rouse-run/rouse/controller/keyring"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/kube"
)

// Hosts tells what has become of the host of a Door, false while that is not decided.
type Hosts interface {
	Of(d *v1alpha1.Door) (apirules.DoorHost, bool)
}

const (
	// retryInterval is between looks for a Secret that is missing.
	retryInterval = 15 * time.Second
	// lookInterval is between looks at a Secret.
	lookInterval = time.Minute
)

// Reconciler writes the status of Doors and the keys of bridges.
type Reconciler struct {
	client   client.Client
	hosts    Hosts
	keys     *keyring.Keyring
	recorder events.EventRecorder
	share    door.Share
	clock    clock.PassiveClock

	mu      sync.Mutex
	reports map[types.UID]door.Report // what is not in a status yet
}

// Reconcile implements reconcile.Reconciler for a Door.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	found := &v1alpha1.Door{}
	if err := r.client.Get(ctx, request.NamespacedName, found); err != nil || found.DeletionTimestamp != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			return ctrl.Result{}, fmt.Errorf("get Door %s: %w", request, err)
		}
		return ctrl.Result{}, nil
	}
	state, err := r.observe(ctx, found)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := found.DeepCopy()
	setStatus(found, &state, r.clock.Now())
	if err := kube.PatchStatus(ctx, r.client, before, found); err != nil {
		r.keep(found.UID, state.report)
		return kube.Result(err)
	}
	kube.RecordTransitions(r.recorder, found, "Door", before.Status.Conditions, found.Status.Conditions)
	return ctrl.Result{RequeueAfter: interval(&state)}, nil
}

// observe reads what the status depends on, and hands the keys to the bridges.
func (r *Reconciler) observe(ctx context.Context, d *v1alpha1.Door) (state, error) {
	found := state{report: r.take(d.UID), asksCertificates: d.Spec.ClientCertificates != nil}
	siblings := &v1alpha1.DoorList{}
	if err := r.client.List(ctx, siblings, client.InNamespace(d.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return found, fmt.Errorf("list the Doors of namespace %s: %w", d.Namespace, err)
	}
	all := make([]*v1alpha1.Door, len(siblings.Items))
	for i := range siblings.Items {
		all[i] = &siblings.Items[i]
	}
	found.over = r.share.Over(all)[string(d.UID)]
	found.taken = apirule.ExposeDoors(all, apirule.Target{}).Taken[client.ObjectKeyFromObject(d)]
	found.host, found.decided = r.hosts.Of(d)
	keys, err := r.keysOf(ctx, d)
	if err != nil {
		return found, err
	}
	_, found.invalid = door.New(d, keys)
	if found.over == "" {
		found.unkept, err = r.keys.Keep(ctx, d, door.SecretName(d), keys)
	}
	return found, err
}

// keysOf reads the keys of a Door, nil without any.
func (r *Reconciler) keysOf(ctx context.Context, d *v1alpha1.Door) (*door.Keys, error) {
	if door.SecretName(d) == "" {
		return nil, nil //nolint:nilnil // it needs none
	}
	return r.keys.Read(ctx, types.NamespacedName{Namespace: d.Namespace, Name: door.SecretName(d)})
}

// Hear takes over what a bridge reports.
func (r *Reconciler) Hear(data []byte) {
	reports, err := door.DecodeReports(data)
	if err != nil {
		return // one of another release
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, report := range reports {
		if report != nil && (len(r.reports) < mostReports || r.reports[uid] != door.Report{}) {
			r.reports[uid] = r.reports[uid].Join(*report)
		}
	}
}

// keep puts back what could not be written into a status.
func (r *Reconciler) keep(uid types.UID, report door.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if report != (door.Report{}) {
		r.reports[uid] = r.reports[uid].Join(report)
	}
}

// mostReports bounds the Doors whose reports wait to be written.
const mostReports = 10_000

// take returns what bridges have reported since it was last asked for.
func (r *Reconciler) take(uid types.UID) door.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := r.reports[uid]
	delete(r.reports, uid)
	return report
}

// interval is until the status is computed again: Secrets of others are not watched, and reports come without an event.
func interval(found *state) time.Duration {
	if found.invalid != nil || found.unkept != "" || !found.decided {
		return retryInterval
	}
	return lookInterval
}
