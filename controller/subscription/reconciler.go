package subscription

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
)

// maxEventNote is the longest text that an event may have.
const maxEventNote = 1024

// Reconciler gives each Subscription its consumer.
type Reconciler struct {
	client    client.Client
	consumers Consumers
	stream    string
	policy    routing.Policy
	readiness *readiness
	denials   *prometheus.CounterVec
	recorder  events.EventRecorder
	clock     clock.PassiveClock
	released  func() // is called when a consumer was deleted
	missing   func() // is called when the stream of events is not there
}

// Reconcile makes the consumer match one Subscription, and its status both.
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
		return kube.Result(r.setFinalizer(ctx, sub, controllerutil.AddFinalizer)) // its update brings us back
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
		said := []any{"ready", sub.Status.Ready}
		if err != nil {
			said = append(said, "reason", err.Error())
		}
		log.Info("reconciled", said...)
	}
	return kube.Result(err)
}

// run does the work of a reconciliation. The outcome is nil when nothing new is known.
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
	switch {
	case err != nil:
		return nil, errors.Join(err, ensured)
	case problem != "":
		return &outcome{route: route, invalid: problem}, ensured // its Service is watched
	case ensured != nil:
		return &outcome{
			route: route, inactive: ensured.Error(), stalled: kube.IsStalled(ensured), deadLettersBlocked: deadLettersBlocked,
		}, ensured
	default:
		return &outcome{route: route, deadLettersBlocked: deadLettersBlocked}, deadLettersErr
	}
}

// finalize deletes the consumer of a Subscription that is going.
func (r *Reconciler) finalize(ctx context.Context, sub *eventingv1alpha2.Subscription) error {
	if !controllerutil.ContainsFinalizer(sub, eventingv1alpha2.Finalizer) {
		return nil
	}
	if err := r.forget(ctx, client.ObjectKeyFromObject(sub)); err != nil {
		return classify(err)
	}
	return r.setFinalizer(ctx, sub, controllerutil.RemoveFinalizer)
}

// sweep deletes what a Subscription left behind that is gone: it may have lost
// its finalizer by force. Without NATS, the next sweep finds it.
func (r *Reconciler) sweep(ctx context.Context, key types.NamespacedName) error {
	err := r.forget(ctx, key)
	if errors.Is(err, broker.ErrNotConnected) {
		return nil
	}
	return classify(err)
}

// forget deletes the consumers and what waits for an attempt. Dead letters stay until
// they are old.
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
		return fmt.Errorf("change the finalizer: %w", err)
	}
	return nil
}

// announce sends an event when a Subscription becomes ready or ceases to be.
func (r *Reconciler) announce(before, after *eventingv1alpha2.Subscription) {
	if before.Status.Ready == after.Status.Ready && len(before.Status.Conditions) > 0 {
		return
	}
	if after.Status.Ready {
		r.recorder.Eventf(after, nil, corev1.EventTypeNormal, "Ready", "Reconcile", "Events are delivered to %s", routing.ShownSink(after.Spec.Sink))
		return
	}
	r.recorder.Eventf(after, nil, corev1.EventTypeWarning, "NotReady", "Reconcile", "%s",
		kube.Truncate(obstacle(after.Status.Conditions), maxEventNote))
}

// obstacle is what the first condition that is not met says; Ready comes behind those that it repeats.
func obstacle(conditions []eventingv1alpha2.Condition) string {
	for _, condition := range conditions {
		if condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}
