package subscription

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/controller/keyring"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
)

// Reconciler maintains the consumer of each Subscription.
type Reconciler struct {
	client    client.Client
	consumers Consumers
	stream    string
	policy    routing.Policy
	keyring   *keyring.Keyring // nil: nobody signs
	readiness *readiness
	denials   *prometheus.CounterVec
	recorder  events.EventRecorder
	clock     clock.PassiveClock
	released  func() // called when a consumer was deleted
	missing   func() // called when the stream of events does not exist
}

// Reconcile makes the consumer match one Subscription, and its status match both.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	sub := &eventingv1alpha2.Subscription{}
	err := r.client.Get(ctx, request.NamespacedName, sub)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get Subscription: %w", err)
	}
	if err != nil {
		r.readiness.forget(request.NamespacedName)
		return kube.Result(r.sweep(ctx, request.NamespacedName))
	}
	if !sub.DeletionTimestamp.IsZero() {
		return kube.Result(r.finalize(ctx, sub))
	}
	if !controllerutil.ContainsFinalizer(sub, eventingv1alpha2.Finalizer) {
		return kube.Result(r.setFinalizer(ctx, sub, controllerutil.AddFinalizer)) // its update enqueues it again
	}

	before := sub.DeepCopy()
	found, err := r.run(ctx, sub)
	if found != nil {
		setStatus(sub, *found, r.clock.Now())
		r.readiness.show(request.NamespacedName, consumerNames(found.route), sub.Status.Ready)
		if err := patchStatus(ctx, r.client, before, sub); err != nil {
			return kube.Result(err)
		}
		r.announce(before, sub)
	}
	if log := ctrl.LoggerFrom(ctx).V(1); log.Enabled() {
		pairs := []any{"ready", sub.Status.Ready}
		if err != nil {
			pairs = append(pairs, "reason", err.Error())
		}
		log.Info("reconciled", pairs...)
	}
	return kube.Result(err)
}

// run does the work of a reconciliation. The outcome is nil when the status stays unchanged.
func (r *Reconciler) run(ctx context.Context, sub *eventingv1alpha2.Subscription) (*outcome, error) {
	if errs := admission.Subscription(sub, r.policy); len(errs) > 0 {
		return &outcome{invalid: invalidMessage(errs), stalled: true}, kube.Stalled(errs.ToAggregate())
	}
	route, err := routing.FromSubscription(sub, r.policy)
	if err != nil {
		if errors.Is(err, routing.ErrNotAllowed) {
			r.denials.WithLabelValues(sub.Namespace).Inc()
		}
		return &outcome{invalid: "Subscription validation failed: " + err.Error(), stalled: true}, kube.Stalled(err)
	}
	// The consumer comes first: events that arrive before their sink are kept.
	ensured := classify(r.consumers.EnsureConsumer(ctx, r.stream, broker.ConsumerOf(route)))
	if errors.Is(ensured, broker.ErrNoStream) {
		r.missing()
	}
	deadLettersBlocked, deadLettersErr := r.serveDeadLetters(ctx, sub, route)
	problem, err := r.sinkProblem(ctx, route)
	if problem == "" && err == nil {
		problem, err = r.signingProblem(ctx, sub, route)
	}
	switch {
	case problem != "":
		return &outcome{route: route, invalid: problem}, errors.Join(err, ensured) // the Service and the Secret are watched
	case err != nil:
		return nil, errors.Join(err, ensured)
	case ensured != nil:
		return &outcome{
			route: route, inactive: ensured.Error(), stalled: kube.IsStalled(ensured), deadLettersBlocked: deadLettersBlocked,
		}, ensured
	default:
		return &outcome{route: route, deadLettersBlocked: deadLettersBlocked}, deadLettersErr
	}
}

// finalize deletes the consumers of a Subscription that is being deleted.
func (r *Reconciler) finalize(ctx context.Context, sub *eventingv1alpha2.Subscription) error {
	if !controllerutil.ContainsFinalizer(sub, eventingv1alpha2.Finalizer) {
		return nil
	}
	if err := r.forget(ctx, client.ObjectKeyFromObject(sub)); err != nil {
		return classify(err)
	}
	return r.setFinalizer(ctx, sub, controllerutil.RemoveFinalizer)
}

// sweep deletes the consumers and retries of a deleted Subscription, which may have lost its finalizer by force.
// Without NATS, the next sweep finds them.
func (r *Reconciler) sweep(ctx context.Context, key types.NamespacedName) error {
	err := r.forget(ctx, key)
	if errors.Is(err, broker.ErrNotConnected) {
		return nil
	}
	return classify(err)
}

// forget deletes the consumers and the waiting retries. Dead letters stay until they expire.
func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName) error {
	for _, stream := range []string{r.stream, broker.DeadLetterStream} {
		if err := r.consumers.DeleteConsumer(ctx, stream, routing.ConsumerName(key.Namespace, key.Name)); err != nil {
			return err
		}
	}
	r.released()
	return r.consumers.PurgeRetries(ctx, key)
}

func (r *Reconciler) setFinalizer(
	ctx context.Context, sub *eventingv1alpha2.Subscription, change func(client.Object, string) bool,
) error {
	before := sub.DeepCopy()
	change(sub, eventingv1alpha2.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, sub, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the finalizer of Subscription %q: %w", client.ObjectKeyFromObject(sub), err)
	}
	return nil
}

// announce emits an event when a Subscription becomes ready or not ready.
func (r *Reconciler) announce(before, after *eventingv1alpha2.Subscription) {
	if before.Status.Ready == after.Status.Ready && len(before.Status.Conditions) > 0 {
		return
	}
	if after.Status.Ready {
		r.recorder.Eventf(after, nil, corev1.EventTypeNormal, "Ready", "Reconcile", "Events are delivered to %s", routing.ShownSink(after.Spec.Sink))
		return
	}
	r.recorder.Eventf(after, nil, corev1.EventTypeWarning, "NotReady", "Reconcile", "%s",
		kube.Truncate(obstacle(after.Status.Conditions), kube.MaxEventNote))
}

// obstacle returns the message of the first False condition; Ready comes after those that it repeats.
func obstacle(conditions []eventingv1alpha2.Condition) string {
	for _, condition := range conditions {
		if condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

const (
	// brokerDelay is the delay before NATS is tried again.
	brokerDelay = 5 * time.Second
	// deletionDelay is the delay before a deleted stream or consumer is created again.
	deletionDelay = 250 * time.Millisecond
	// limitDelay is the delay before checking whether a limit was raised.
	limitDelay = 30 * time.Second
	// badRequest is JetStream's code for a request that it will never accept.
	badRequest = 400
)

// consumersRemedy is the remedy when NATS accepts no further consumer.
const consumersRemedy = "every Subscription needs a consumer: delete unused Subscriptions, or raise max_consumers " +
	"of the stream or of its account in NATS"

// DeadLetterStats counts stored and dropped dead letters.
type DeadLetterStats interface {
	DeadLetterCounts(ctx context.Context) (map[types.NamespacedName]uint64, error)
	DroppedDeadLetters(ctx context.Context) (map[types.NamespacedName]bool, error)
}

// Consumers manages the durable consumers.
type Consumers interface {
	DeadLetterStats

	EnsureConsumer(ctx context.Context, stream string, consumer broker.Consumer) error
	DeleteConsumer(ctx context.Context, stream, name string) error
	Consumers(ctx context.Context, stream string) ([]broker.Consumer, error)
	WaitingRetries(ctx context.Context) (map[types.NamespacedName]uint64, error)
	PurgeRetries(ctx context.Context, subscription types.NamespacedName) error
}

// classify distinguishes permanent errors from temporary ones.
func classify(err error) error {
	var api *broker.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, broker.ErrOverlappingSubjects):
		return kube.Stalled(err)
	case errors.Is(err, broker.ErrBeingDeleted):
		return kube.Waiting(err, deletionDelay)
	case errors.Is(err, broker.ErrNotConnected), errors.Is(err, broker.ErrTimeout), errors.Is(err, broker.ErrInsufficientResources):
		return kube.Waiting(err, brokerDelay)
	case isBlocked(err):
		return kube.Waiting(err, sweepInterval)
	case errors.Is(err, broker.ErrTooManyConsumers):
		return kube.Waiting(fmt.Errorf("%w; %s", err, consumersRemedy), limitDelay)
	case errors.Is(err, broker.ErrNoStream):
		return kube.Waiting(fmt.Errorf("%w; it is created when NATS has capacity for it", err), brokerDelay)
	case errors.As(err, &api) && api.Code == badRequest:
		return kube.Stalled(err)
	default:
		return err
	}
}

// serveDeadLetters ensures the consumer that delivers dead letters to their sink, or deletes it if they no longer have
// one, and reports why they wait. The sweeper repeats a failed deletion.
func (r *Reconciler) serveDeadLetters(
	ctx context.Context, sub *eventingv1alpha2.Subscription, route routing.Route,
) (wait string, err error) {
	deadLetters := route.DeadLetters
	if deadLetters == nil {
		if !hadDeadLetterSink(sub) {
			return "", nil
		}
		return "", classify(r.consumers.DeleteConsumer(ctx, broker.DeadLetterStream, route.Consumer))
	}
	if err := classify(r.consumers.EnsureConsumer(ctx, broker.DeadLetterStream, broker.ConsumerOf(*deadLetters))); err != nil {
		return err.Error(), err
	}
	problem, err := r.sinkProblem(ctx, *deadLetters)
	if err != nil {
		return err.Error(), err
	}
	return problem, nil // the Service is watched, too
}

// droppedMessage explains the loss of dead letters, and its remedy.
const droppedMessage = "The stream of dead letters was full, and this namespace held most of it: its oldest were dropped. " +
	"Redrive or purge dead letters, or have deadLetters.maxBytes raised"

// deadLettersDroppedCondition is the condition of a Subscription that has lost dead letters.
func deadLettersDroppedCondition() eventingv1alpha2.Condition {
	return condition(eventingv1alpha2.ConditionDeadLettersKept, false, eventingv1alpha2.ReasonDeadLettersDropped, droppedMessage)
}

// isDeadLettersDropped reports whether the condition is the one that the sweeper sets and removes.
func isDeadLettersDropped(c eventingv1alpha2.Condition) bool {
	return c.Type == eventingv1alpha2.ConditionDeadLettersKept
}

// hadDeadLetterSink reads the status of the last reconciliation.
func hadDeadLetterSink(sub *eventingv1alpha2.Subscription) bool {
	return slices.ContainsFunc(sub.Status.Conditions, func(c eventingv1alpha2.Condition) bool {
		return c.Type == eventingv1alpha2.ConditionDeadLetterSink
	})
}

// sinkProblem looks up the Service of a sink and returns why it cannot receive events, empty if it can. A sink outside
// of the cluster is assumed to exist.
func (r *Reconciler) sinkProblem(ctx context.Context, route routing.Route) (string, error) {
	if route.External {
		return "", nil
	}
	service := &corev1.Service{}
	err := r.client.Get(ctx, route.Service, service)
	switch {
	case apierrors.IsNotFound(err):
		return missingSinkMessage(route.Service), nil
	case err != nil:
		return "", fmt.Errorf("get Service %q: %w", route.Service, err)
	default:
		return serviceProblem(service, route.Port), nil
	}
}

// serviceProblem returns why a port of a Service cannot receive events.
func serviceProblem(service *corev1.Service, port int32) string {
	key := client.ObjectKeyFromObject(service)
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return externalNameMessage(key)
	}
	for _, p := range service.Spec.Ports {
		if p.Port == port && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			return ""
		}
	}
	return missingPortMessage(key, port)
}

// servedOtherwise passes creations, deletions and changes that affect serviceProblem.
func servedOtherwise() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Service)
		after, too := e.ObjectNew.(*corev1.Service)
		return ok && too && (before.Spec.Type != after.Spec.Type || !reflect.DeepEqual(before.Spec.Ports, after.Spec.Ports))
	}}
}

// subscriptionsOf finds the Subscriptions, in any namespace, that an index has for an object.
func subscriptionsOf(reader client.Reader, index string) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		list := &eventingv1alpha2.SubscriptionList{}
		named := client.MatchingFields{index: client.ObjectKeyFromObject(object).String()}
		if err := reader.List(ctx, list, named, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "list subscriptions")
			return nil
		}
		requests := make([]reconcile.Request, len(list.Items))
		for i := range list.Items {
			requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
		}
		return requests
	}
}

// invalidMessage is the message of the condition for the errors of a Subscription.
func invalidMessage(errs field.ErrorList) string {
	return "Subscription validation failed: " + errs.ToAggregate().Error()
}

// missingSinkMessage is the message of the condition for a sink without Service.
func missingSinkMessage(service types.NamespacedName) string {
	return "Sink validation failed: service " + service.Name + "." + service.Namespace + " not found in the cluster"
}

// missingPortMessage is the message for a port that the sink's Service does not have.
func missingPortMessage(service types.NamespacedName, port int32) string {
	return fmt.Sprintf("Sink validation failed: service %s.%s has no TCP port %d: write one of its ports into the sink",
		service.Name, service.Namespace, port)
}

// externalNameMessage is the message for a Service of type ExternalName.
func externalNameMessage(service types.NamespacedName) string {
	return "Sink validation failed: service " + service.Name + "." + service.Namespace +
		" is of type ExternalName: name the host itself as the sink, which the operator of the cluster has to allow"
}
