package serverless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// blockedDelay is the delay before a problem that others have to resolve is checked again.
	blockedDelay = 3 * time.Second
	// removalDelay is the delay before objects that are being deleted are checked again. Most of them are watched.
	removalDelay = time.Second
	// resyncPeriod is how often the number of nodes is read, which is not watched.
	resyncPeriod = 10 * time.Minute
)

// Reconciler reconciles Serverlesses.
type Reconciler struct {
	client       client.Client // only writes
	live         client.Reader
	collectors   client.Reader // Services of collectors of traces, from a cache
	applier      *kube.Applier
	recorder     events.EventRecorder
	clock        clock.PassiveClock
	installation *resources.Installation
}

// Reconcile reconciles one Serverless, or removes the objects of a deleted one.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	all := &operatorv1alpha1.ServerlessList{}
	if err := r.live.List(ctx, all); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Serverlesses: %w", err)
	}
	for i := range all.Items {
		if one := &all.Items[i]; client.ObjectKeyFromObject(one) == request.NamespacedName {
			return r.reconcile(ctx, one, choose(all.Items, r.installation.Allows))
		}
	}
	left, err := r.remove(ctx, request.Namespace, leftBehind(all.Items))
	if err == nil && left {
		return ctrl.Result{RequeueAfter: removalDelay}, nil
	}
	return kube.Result(err)
}

func (r *Reconciler) reconcile(ctx context.Context, one, served *operatorv1alpha1.Serverless) (ctrl.Result, error) {
	old := one.DeepCopy()
	s := &scope{
		serverless: one, served: served,
		namespaces: r.installation.Namespaces, allowed: r.installation.Allows(one.Namespace),
		networkPolicies: r.installation.NetworkPolicy != nil,
	}
	if !s.isDeleted() && s.allowed && s.isServed() && !controllerutil.ContainsFinalizer(one, operatorv1alpha1.Finalizer) {
		return kube.Result(r.setFinalizer(ctx, one, controllerutil.AddFinalizer)) // its update enqueues it again
	}
	after, err := r.act(ctx, s)
	if err != nil && s.failed == nil {
		return kube.Result(err) // not a problem of the Serverless
	}
	setStatus(s, r.clock.Now())
	if failed := kube.PatchStatus(ctx, r.client, old, one); failed != nil {
		return kube.Result(failed)
	}
	r.announce(old, one)
	if s.removed {
		err = r.setFinalizer(ctx, old, controllerutil.RemoveFinalizer)
	}
	if err != nil {
		return kube.Result(err)
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// act does what a Serverless requests, and returns when to reconcile again.
func (r *Reconciler) act(ctx context.Context, s *scope) (time.Duration, error) {
	switch {
	case s.isDeleted():
		return r.uninstall(ctx, s)
	case !s.allowed:
		return 0, nil // a change of it restarts the operator
	case !s.isServed():
		return blockedDelay, nil
	default:
		return r.install(ctx, s)
	}
}

func (r *Reconciler) setFinalizer(
	ctx context.Context, one *operatorv1alpha1.Serverless, change func(client.Object, string) bool,
) error {
	known := &operatorv1alpha1.Serverless{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(one), known); err != nil {
		return client.IgnoreNotFound(err)
	}
	old := known.DeepCopy()
	if known.UID != one.UID || !change(known, operatorv1alpha1.Finalizer) {
		return nil
	}
	err := r.client.Patch(ctx, known, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the finalizer of Serverless %q: %w", client.ObjectKeyFromObject(one), err)
	}
	return nil
}

// scope holds everything that one reconciliation reads about a Serverless. The status is computed from it.
type scope struct {
	serverless *operatorv1alpha1.Serverless
	// served is the Serverless that is served; nil when none may be.
	served *operatorv1alpha1.Serverless
	// namespaces are those where a Serverless may be.
	namespaces []string
	allowed    bool

	// settings are those in effect; nil when there are none.
	settings *resources.Settings
	// networkPolicies is true where the Function controller's pods have a NetworkPolicy.
	networkPolicies bool
	// invalid is why the spec is not in effect.
	invalid error
	// deployment is the applied one.
	deployment *appsv1.Deployment
	// failed is why a part could not be applied or removed.
	failed error

	// functions is the number of Functions that keep a Serverless from being removed.
	functions int64
	// removing is true while the parts are being deleted, and removed once none is left.
	removing, removed bool
}

// isServed reports whether this Serverless is served.
func (s *scope) isServed() bool { return s.served != nil && s.served.UID == s.serverless.UID }

func (s *scope) isDeleted() bool { return s.serverless.DeletionTimestamp != nil }

// choose returns the Serverless that is served already, or else the oldest that may be.
func choose(all []operatorv1alpha1.Serverless, allows func(namespace string) bool) *operatorv1alpha1.Serverless {
	var chosen *operatorv1alpha1.Serverless
	for i := range all {
		one := &all[i]
		served := one.Status.Served == operatorv1alpha1.ServedTrue
		if !served && (one.DeletionTimestamp != nil || !allows(one.Namespace)) {
			continue
		}
		if chosen == nil || before(one, chosen) {
			chosen = one
		}
	}
	return chosen
}

// before sorts served ones first, then the oldest. Two are served only when someone else wrote their status.
func before(a, b *operatorv1alpha1.Serverless) bool {
	if first, second := a.Status.Served == operatorv1alpha1.ServedTrue, b.Status.Served == operatorv1alpha1.ServedTrue; first != second {
		return first
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

// chosenPreset returns the preset in effect, unless the Serverless was changed since it was chosen.
func chosenPreset(one *operatorv1alpha1.Serverless) string {
	if one.Status.ObservedGeneration != one.Generation {
		return ""
	}
	return one.Status.DefaultRuntimePodPreset
}

// lastGood returns the settings that were last in effect, nil when there never were any.
func lastGood(status *operatorv1alpha1.ServerlessStatus) *resources.Settings {
	if status.EventingEndpoint == "" || status.DefaultRuntimePodPreset == "" {
		return nil
	}
	return &resources.Settings{
		EventingEndpoint:        status.EventingEndpoint,
		TracingEndpoint:         status.TracingEndpoint,
		FunctionRequeueDuration: status.FunctionRequeueDuration,
		HealthzLivenessTimeout:  status.HealthzLivenessTimeout,
		DefaultPreset:           status.DefaultRuntimePodPreset,
		LogLevel:                status.LogLevel,
		LogFormat:               status.LogFormat,
	}
}

// rollout is the progress of a Deployment.
type rollout struct {
	ready bool
	// failure is why pods cannot be created.
	failure string
	// stalled is why the Deployment is not expected to become ready without intervention.
	stalled error
}

// verify returns the progress of the current version of a Deployment.
func verify(deployment *appsv1.Deployment) rollout {
	conditions := map[appsv1.DeploymentConditionType]appsv1.DeploymentCondition{}
	for _, condition := range deployment.Status.Conditions {
		conditions[condition.Type] = condition
	}
	name := deployment.Namespace + "/" + deployment.Name
	if failure := conditions[appsv1.DeploymentReplicaFailure]; failure.Status == corev1.ConditionTrue {
		return rollout{failure: fmt.Sprintf("Warning: deployment %s has replica failure: %s", name,
			cmp.Or(failure.Message, failure.Reason))}
	}
	if deployment.Status.ObservedGeneration < deployment.Generation {
		return rollout{}
	}
	progress := conditions[appsv1.DeploymentProgressing]
	if progress.Status == corev1.ConditionFalse {
		return rollout{stalled: fmt.Errorf("deployment %s does not get ready: %s. Find out why with "+
			"kubectl -n %s describe pods -l app=serverless", name, cmp.Or(progress.Message, progress.Reason), deployment.Namespace)}
	}
	return rollout{ready: progress.Status == corev1.ConditionTrue && progress.Reason == "NewReplicaSetAvailable" &&
		conditions[appsv1.DeploymentAvailable].Status == corev1.ConditionTrue && deployment.Status.UnavailableReplicas == 0}
}

// foreignError reports that another owner's object has the name of a part.
type foreignError struct{ kind, key string }

// Error includes the remedy.
func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %s exists already and was not created by the operator, which does not change it. If it is Kyma's, stop Kyma's operator; "+
		"then delete it, and the operator continues", e.kind, e.key)
}

func isForeign(err error) bool {
	var foreign *foreignError
	return errors.As(err, &foreign)
}

// misplaced explains that the operator has no rights in the namespace of a Serverless.
func misplaced(namespace string, namespaces []string) string {
	return fmt.Sprintf("the operator does not work in namespace %s: move this Serverless to one of %v, or add the namespace to the chart's "+
		"value operator.namespaces", namespace, slices.Sorted(slices.Values(namespaces)))
}
