package function

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/workload"
)

// slots limits the builds that run at a time.
type slots interface {
	Enter(ctx context.Context, fn client.ObjectKey) (buildqueue.QueueStatus, error)
	Began(fn client.ObjectKey)
	Leave(fn client.ObjectKey)
}

// Repositories watches the Git repositories of Functions.
type Repositories interface {
	manager.Runnable
	// Commit returns the commit that a reference points to; false before the first check.
	Commit(fn types.NamespacedName, want gitpoll.Want) (gitpoll.Finding, bool)
	// Forget removes a Function that no longer needs a repository.
	Forget(fn types.NamespacedName)
	// Events receives each Function whose result has changed.
	Events() <-chan event.GenericEvent
}

// registries finds the registry of a namespace and the images in it.
type registries interface {
	// For returns the registry of a namespace, nil when it has none. The error may be an *images.InvalidError.
	For(ctx context.Context, namespace string) (*images.Location, error)
	// result returns the result of a query to a registry. ready is false while there is none; the Function is reconciled
	// again when it arrives.
	result(fn types.NamespacedName, asked query) (found, ready bool, err error)
	// forget removes a Function that no longer needs a result.
	forget(fn types.NamespacedName)
}

// Reconciler turns Functions into the objects that run them.
type Reconciler struct {
	// client reads from the cache and writes to the API server.
	client client.Client
	// live bypasses the cache, which holds only objects with our label.
	live client.Reader
	keda keda

	applier  *kube.Applier
	recorder events.EventRecorder
	clock    clock.PassiveClock
	settings *Live
	rollouts *rollouts
	// ca holds the certificates that builds trust in addition to those of their images.
	ca         []byte
	registries registries
	slots      slots

	repositories Repositories
	files        *fileDigests
	metrics      *metrics
	progress     *progress
	zeroReplicas kube.ZeroReplicas
}

// phase is one step of a reconciliation.
type phase func(context.Context, *scope) error

// Reconcile makes the cluster match one Function, and its status match the cluster.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.settings.workers.begin()()
	fn := &v1alpha2.Function{}
	err := r.client.Get(ctx, request.NamespacedName, fn)
	if apierrors.IsNotFound(err) {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if !fn.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // owned objects are garbage collected
	}

	terminating, err := r.isTerminating(ctx, fn.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if terminating {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}

	began := r.clock.Now()
	r.progress.begin(fn, began)
	defer func() { r.metrics.observe(fn, r.clock.Since(began)) }()

	before := fn.DeepCopy()
	state := r.settings.load()
	s := &scope{fn: fn, settings: state.Settings, settled: state.settled, former: state.former, now: began}
	for _, run := range []phase{
		r.decide, r.gather, r.checkOwners, r.findCommit, r.findFiles, r.buildImage, r.rollBack, r.authorizePull, r.readConfiguration,
		r.findConflictingAutoscalers, r.retireScaling, r.applyNetworkPolicy, r.applyWorkload, r.applyScaling,
	} {
		if s.err = run(ctx, s); s.err != nil {
			break
		}
	}
	if apierrors.HasStatusCause(s.err, corev1.NamespaceTerminatingCause) { // the cache has not seen it yet
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	requeueAfter := setStatus(s)
	if requeueAfter == 0 {
		requeueAfter = state.requeueAfter()
	}
	if err := kube.PatchStatus(ctx, r.client, before, fn); err != nil {
		return kube.Result(err) // comes first, so that it is tried again even when the rest is stalled
	}
	r.releaseSlot(s)
	r.progress.end(fn, r.clock.Now())
	r.announce(fn, before.Status.Conditions)
	if log := ctrl.LoggerFrom(ctx).V(1); log.Enabled() {
		log.Info("reconciled", append(s.summary(), "took", r.clock.Since(began).String(), "requeueAfter", requeueAfter.String())...)
	}
	return result(s.err, requeueAfter)
}

// isTerminating reports whether a namespace is being deleted. Objects cannot be created there any more, and its
// Functions are about to be deleted.
func (r *Reconciler) isTerminating(ctx context.Context, name string) (bool, error) {
	namespace := metadataOf(kindNamespace)
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look for namespace %q: %w", name, err)
	}
	return err == nil && !namespace.DeletionTimestamp.IsZero(), nil
}

// forget drops all state of a Function that is deleted or about to be.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.applier.Forget(key)
	r.applier.Forget(registrySecretOf(key))
	r.applier.Forget(networkPolicyOf(key))
	r.slots.Leave(key)
	r.rollouts.leave(key)
	r.repositories.Forget(key)
	r.files.forget(key)
	r.registries.forget(key)
	r.progress.forget(key)
}

// result requeues after requeueAfter unless the error decides otherwise.
func result(err error, requeueAfter time.Duration) (ctrl.Result, error) {
	outcome, err := kube.Result(err)
	if err == nil && outcome.RequeueAfter == 0 {
		outcome.RequeueAfter = requeueAfter
	}
	return outcome, err
}

// scope holds everything that one reconciliation reads and decides about a Function. Phases fill it in, and the status
// is computed from it.
type scope struct {
	fn       *v1alpha2.Function
	settings *resources.Settings
	// settled is false until the settings are known that the pods may run with.
	settled bool
	// former lists the addresses of earlier settings.
	former []string
	now    time.Time

	// Live objects; nil if absent.
	deployment   *appsv1.Deployment
	service      metav1.Object
	hpa          *autoscalingv2.HorizontalPodAutoscaler
	scaledObject *resources.LiveScaledObject
	pods         []corev1.Pod
	// buildPods are the pods of the Function's build Jobs.
	buildPods []corev1.Pod
	// missingSecrets are the mounts of Secrets that do not exist.
	missingSecrets []v1alpha2.SecretMount
	// missingBindings names the Secrets that are bound to the Function and do not exist.
	missingBindings []string
	// conflictingAutoscalers names the users' autoscalers that scale the same pods.
	conflictingAutoscalers []string
	// keda reports whether the cluster serves ScaledObjects.
	keda bool
	// neverSleeps is true where an HPA scales a Function that may sleep, and the API server lets none go to zero.
	neverSleeps bool

	// Decisions.
	//
	// plan describes the image that the code needs, nil when it needs none. It is incomplete until the registry and the
	// commit are known.
	plan *buildplan.Plan
	// registry holds the images, nil when there is none; tenant is the owner of the namespace's images.
	registry *images.Location
	tenant   registry.Tenant
	// source explains why the current commit of the source is unknown.
	source conditionUpdate
	// planned is true once it is decided how the code reaches the pods: as image, which is ready to run, or not yet,
	// which build explains.
	planned bool
	image   *v1alpha2.BuildStatus
	build   conditionUpdate
	// code is what the pods run. Until it has an image the Deployment stays unchanged.
	code resources.Code
	// rolledBack is true when code is an earlier version; own is then the spec's.
	rolledBack bool
	own        resources.Code
	tuning     workload.Tuning
	triggers   []resources.Trigger
	// configuration is a hash of the ConfigMaps and Secrets that the pods follow.
	configuration string
	// template is the hash of the desired pod template.
	template string

	// Results.
	change change
	// postponed is true when the pods keep earlier settings because other Functions roll out first.
	postponed bool
	// applied is true when Deployment and Service match the spec.
	applied bool
	// err is the error that ended the phases.
	err error
	// stalled holds the conditions that only a change by a user can resolve.
	stalled map[string]bool
}

// change is what a reconciliation did to the Deployment.
type change int

const (
	unchanged change = iota
	created
	updated
)

func (c change) String() string { return [...]string{"none", "created", "updated"}[c] }

// ownVersion returns the version of the spec's own code, empty until it has an image.
func (s *scope) ownVersion() string {
	own := s.code
	if s.rolledBack {
		own = s.own
	}
	if own.Image == "" {
		return ""
	}
	return own.Version()
}

// held reports whether the Deployment stays unchanged because there is no code to run yet.
func (s *scope) held() bool { return s.code.Image == "" }

// httpCounted reports whether pods can report their HTTP load. Pods of Kyma's contract cannot: every path leads to the
// handler. The answer does not change while the running pods stay.
func (s *scope) httpCounted() bool {
	if s.held() && s.scaledObject != nil {
		return resources.IsHTTPCounted(s.scaledObject)
	}
	return !s.code.Kyma
}

// scaled reports whether an autoscaler sets the number of pods.
func (s *scope) scaled() bool { return s.fn.Spec.ScaleConfig != nil }

// summary returns the key-value pairs of the reconciliation's log line. It contains neither source code nor
// environment.
func (s *scope) summary() []any {
	pairs := []any{"held", s.held(), "postponed", s.postponed, "change", s.change.String()}
	if s.deployment != nil {
		pairs = append(pairs, "replicas", s.deployment.Status.Replicas, "template", s.template)
	}
	for _, condition := range s.fn.Status.Conditions {
		pairs = append(pairs, condition.Type, string(condition.Status)+" "+condition.Reason)
	}
	if s.err != nil {
		pairs = append(pairs, "reason", s.err.Error())
	}
	return pairs
}

// failure is an error that a condition explains to the user.
type failure struct {
	condition, reason, message string
	err                        error
}

// Error returns the message of the condition.
func (f *failure) Error() string { return f.message }

// Unwrap returns the cause, nil if there is none.
func (f *failure) Unwrap() error { return f.err }

// failureOf returns the failure in an error's chain, nil if there is none.
func failureOf(err error) *failure {
	if failed, ok := errors.AsType[*failure](err); ok {
		return failed
	}
	return nil
}

// failureCondition returns the condition of a failure.
func failureCondition(failed *failure) conditionUpdate {
	if failed == nil {
		return conditionUpdate{}
	}
	return conditionUpdate{status: metav1.ConditionFalse, reason: failed.reason, message: failed.message}
}

// explain turns an error that is likely to persist, such as a webhook that does not answer, into a condition, and
// returns one that is likely to pass unchanged, so that it is retried without a condition.
func explain(err error, condition, reason, message string) error {
	explained := &failure{condition: condition, reason: reason, message: message, err: err}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err // the namespace is being deleted
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return kube.Stalled(explained)
	case apierrors.IsForbidden(err), apierrors.IsInternalError(err):
		return explained
	default:
		return err
	}
}

func verb(creates bool) string {
	if creates {
		return "create"
	}
	return "update"
}

const (
	// foreignDelay is the delay before an object of another owner is checked again. Such objects are not watched,
	// because they do not carry our label.
	foreignDelay = 30 * time.Second
	// predecessorDelay is the same for an object that is being garbage collected.
	predecessorDelay = time.Second
	// cacheTimeout bounds the wait for a cache that cannot be filled.
	cacheTimeout = 10 * time.Second
)

// gather reads the live objects.
func (r *Reconciler) gather(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.fn)
	deployment := &appsv1.Deployment{}
	found, err := r.find(ctx, key, deployment)
	if err != nil {
		return err
	}
	if found {
		s.deployment = deployment
	}

	service := &corev1.Service{}
	err = r.client.Get(ctx, key, service)
	switch {
	case err == nil:
		s.service = service
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get Service %q: %w", key, err)
	}

	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	err = r.client.Get(ctx, key, hpa)
	switch {
	case err == nil:
		s.hpa = hpa
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get HorizontalPodAutoscaler %q: %w", key, err)
	}

	pods := &corev1.PodList{}
	err = r.client.List(ctx, pods, client.InNamespace(s.fn.Namespace), client.MatchingFields{ownerIndex: string(s.fn.UID)})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		switch labels := pods.Items[i].Labels; {
		case labels[v1alpha2.LabelResource] == v1alpha2.ResourceJob:
			s.buildPods = append(s.buildPods, pods.Items[i])
		case labels[v1alpha2.LabelStandIn] == "": // a stand-in says nothing about the Function's own pods
			s.pods = append(s.pods, pods.Items[i])
		}
	}
	if err := r.findMissingSecrets(ctx, s); err != nil {
		return err
	}
	return r.gatherScaledObject(ctx, s)
}

// findMissingSecrets finds the Secrets without which pods cannot start.
func (r *Reconciler) findMissingSecrets(ctx context.Context, s *scope) error {
	isMissing := func(name string) (bool, error) {
		state, err := r.stateOfSecret(ctx, client.ObjectKey{Namespace: s.fn.Namespace, Name: name})
		return state == "", err
	}
	for _, mount := range s.fn.Spec.SecretMounts {
		missing, err := isMissing(mount.SecretName)
		if err != nil {
			return err
		}
		if missing {
			s.missingSecrets = append(s.missingSecrets, mount)
		}
	}
	for _, name := range s.boundSecrets() {
		missing, err := isMissing(name)
		if err != nil {
			return err
		}
		if missing {
			s.missingBindings = append(s.missingBindings, name)
		}
	}
	return nil
}

// find looks into the cache and then bypasses it, because the cache holds no object without our label.
func (r *Reconciler) find(ctx context.Context, key client.ObjectKey, object client.Object) (bool, error) {
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, object)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get %T %q: %w", object, key, err)
	}
	return err == nil, nil
}

func (r *Reconciler) gatherScaledObject(ctx context.Context, s *scope) error {
	installed, err := r.keda.installed(ctx)
	if err != nil {
		return err
	}
	if !installed {
		s.neverSleeps = s.scaled() && mayGoToZero(s.fn) && (!s.settings.Scaling.ExternalMetrics || r.zeroReplicas.Refused(s.now))
		return nil
	}
	s.keda = true
	ctx, cancel := context.WithTimeout(ctx, cacheTimeout) // the first read waits for the cache to fill
	defer cancel()
	object, err := r.keda.scaledObject(ctx, client.ObjectKeyFromObject(s.fn))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get ScaledObject %q: %w", s.fn.Name, err)
	}
	s.scaledObject = object
	return nil
}

// checkOwners prevents writes to objects of other owners.
func (r *Reconciler) checkOwners(_ context.Context, s *scope) error {
	check := func(object metav1.Object, kind, condition string) error {
		err := kube.CheckOwner(object, kind, s.fn, v1alpha2.GroupVersion.WithKind(resources.FunctionKind).GroupKind())
		var foreign *kube.ForeignError
		var predecessor *kube.PredecessorError
		switch {
		case errors.As(err, &foreign) && isOrphan(object, s.fn):
			return nil
		case errors.As(err, &foreign):
			return kube.Waiting(&failure{
				condition: condition, reason: v1alpha2.ReasonOwnedByOther, message: err.Error(), err: err,
			}, foreignDelay)
		case errors.As(err, &predecessor):
			return kube.Waiting(err, predecessorDelay)
		default:
			return err
		}
	}
	if s.deployment != nil {
		if err := check(s.deployment, "Deployment", v1alpha2.ConditionRunning); err != nil {
			return err
		}
	}
	if s.service != nil {
		if err := check(s.service, "Service", v1alpha2.ConditionRunning); err != nil {
			return err
		}
	}
	if s.scaled() && s.scaledObject != nil {
		return check(s.scaledObject, resources.ScaledObjectKind().Kind, v1alpha2.ConditionScaling)
	}
	return nil
}

// isOrphan reports whether an object of this Function has lost its owner reference, which is then restored.
func isOrphan(object metav1.Object, fn *v1alpha2.Function) bool {
	return metav1.GetControllerOf(object) == nil &&
		object.GetLabels()[v1alpha2.LabelUUID] == string(fn.UID) && kube.IsApplied(object)
}
