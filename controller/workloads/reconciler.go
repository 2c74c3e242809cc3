package workloads

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

// recheck is the longest time after which a Service is looked at again: neither targets nor their autoscalers are watched. Problems
// are looked at more often while they are young.
const (
	recheck      = 5 * time.Minute
	firstRecheck = time.Second
)

// The reasons of Events.
const (
	reasonScales       = "Scales"
	reasonCannotScale  = "CannotScale"
	reasonScalesNoMore = "ScalesNoMore"
)

// Reconciler makes the ScaledObjects of Services, and in a cluster without KEDA their HorizontalPodAutoscalers.
type Reconciler struct {
	client   client.Client // reads the cache
	live     client.Reader
	applier  *kube.Applier
	recorder events.EventRecorder
	settings func() *resources.Settings

	zeroReplicas kube.ZeroReplicas

	mu   sync.Mutex
	said map[types.NamespacedName]notice
}

// notice is the last Event about a Service that scales something.
type notice struct {
	text  string
	since time.Time
}

// Reconcile implements reconcile.Reconciler for a Service.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	service := &corev1.Service{}
	err := r.client.Get(ctx, request.NamespacedName, service)
	if apierrors.IsNotFound(err) || err == nil && service.DeletionTimestamp != nil {
		r.forget(request.NamespacedName) // what scales goes with its owner
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get Service %q: %w", request.NamespacedName, err)
	}
	if _, asked := service.Annotations[v1alpha2.AnnotationScaleTarget]; !asked {
		return reconcile.Result{}, r.leave(ctx, service)
	}
	scaling := r.settings().Scaling
	asked, problem := read(service, scaling)
	if problem != nil {
		r.say(service, corev1.EventTypeWarning, reasonCannotScale, problem.Error())
		return reconcile.Result{}, nil // until the Service changes
	}
	done, problem, err := r.scale(ctx, service, asked, scaling)
	switch {
	case err != nil:
		return kube.Result(err)
	case problem != nil:
		age := r.say(service, corev1.EventTypeWarning, reasonCannotScale, problem.Error())
		return ctrl.Result{RequeueAfter: min(max(age, firstRecheck), recheck)}, nil
	}
	if done.changed || r.hasSaid(request.NamespacedName) { // a restart says nothing
		r.say(service, corev1.EventTypeNormal, reasonScales, fmt.Sprintf("%s %s keeps %d to %d replicas of %s %s by the %s of the Service%s",
			done.kind.Kind, service.Name, done.low, asked.target.High, asked.target.Kind, asked.target.Name, counts(asked), done.but))
	}
	return ctrl.Result{RequeueAfter: recheck}, nil
}

// leave takes what scales from a Service that names no target, and reports an annotation that needs one.
func (r *Reconciler) leave(ctx context.Context, service *corev1.Service) error {
	err := r.release(ctx, service)
	if err == nil && wakesNothing(service) {
		r.say(service, corev1.EventTypeWarning, reasonCannotScale, fmt.Sprintf("annotation %s needs %s: deployment/NAME or statefulset/NAME",
			v1alpha2.AnnotationHTTPWake, v1alpha2.AnnotationScaleTarget))
	}
	return err
}

// counts names what scales a target.
func counts(asked scale) string {
	if asked.tuning.HTTPWake {
		return "events and HTTP requests"
	}
	return "events"
}

// wakesNothing reports whether a Service asks that HTTP wakes a workload, and names none.
func wakesNothing(service *corev1.Service) bool {
	_, names := service.Annotations[v1alpha2.AnnotationScaleTarget]
	return !names && service.Annotations[v1alpha2.AnnotationHTTPWake] == v1alpha2.HTTPWakeEnabled
}

// scale writes the Service's scaler if it differs. The problem is one that only users can solve.
func (r *Reconciler) scale(ctx context.Context, service *corev1.Service, asked scale, scaling resources.Scaling) (done outcome, problem, err error) {
	kind, problem, err := r.kindOf(ctx, scaling)
	if problem != nil || err != nil {
		return outcome{}, problem, err
	}
	live, problem, err := r.own(ctx, service, kind)
	if problem != nil || err != nil {
		return outcome{}, problem, err
	}
	found, err := r.find(ctx, service.Namespace, asked.target)
	if err == nil && found != nil && live == nil { // KEDA and Kubernetes report others that come later
		found.scalers, err = r.autoscalersOf(ctx, service, asked.target)
	}
	if err != nil {
		return outcome{}, nil, err
	}
	if problem := check(service, asked, found); problem != nil {
		return outcome{}, problem, nil
	}
	if live == nil { // else the other kind was retired before it was made
		if err := r.retire(ctx, service, kind); err != nil {
			return outcome{}, nil, err
		}
	}
	return r.apply(ctx, service, asked, scaling, kind, live)
}

// find returns the state of a target, nil if there is none.
func (r *Reconciler) find(ctx context.Context, namespace string, of resources.ScaleTarget) (*target, error) {
	object, _, template := resources.NewScalable(of.Kind)
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: of.Name}, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	found := &target{podLabels: template.Labels, function: activation.FunctionOf(object)}
	for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		for _, port := range container.Ports {
			found.portNames = append(found.portNames, port.Name)
		}
	}
	return found, nil
}

// say records an Event, unless it says what the last one said. It returns for how long that has been said.
func (r *Reconciler) say(service *corev1.Service, kind, reason, text string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(service)
	if last := r.said[key]; last.text == text {
		return time.Since(last.since)
	}
	r.said[key] = notice{text, time.Now()}
	r.recorder.Eventf(service, nil, kind, reason, "Scale", "%s", kube.Truncate(text, kube.MaxEventNote))
	return 0
}

func (r *Reconciler) hasSaid(service types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.said[service]
	return has
}

func (r *Reconciler) forget(service types.NamespacedName) {
	r.applier.Forget(service)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, service)
}
