package function

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/kube"
)

// Parts are what the controller works with and does not make.
type Parts struct {
	// Registerer gets the metrics.
	Registerer prometheus.Registerer
	// Registries finds the registry of a Function.
	Registries *images.Resolver
	// Builds gives out the slots for builds.
	Builds *buildqueue.Queue
	// Repositories follows the repositories of Functions.
	Repositories Repositories
	// CA has PEM certificates that builds trust besides those of their images.
	CA []byte
	// Settings are those of the options, which may change; nil: they do not.
	Settings *Live
}

// Setup adds the Function controller and its queue to a manager whose cache is
// limited by CacheObjects.
func Setup(ctx context.Context, mgr ctrl.Manager, parts Parts, options Options) error {
	live := parts.Settings
	if live == nil {
		live = NewLive(options, false)
	}
	if err := chooseProfile(ctx, mgr, &options); err != nil {
		return err
	}
	live.complete(options)
	if err := indexObjects(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	resources.AddLiveScaledObject(mgr.GetScheme())
	watch := &kedaWatch{client: mgr.GetClient(), cache: mgr.GetCache()}
	reconciler, registries := newReconciler(mgr, parts, live, watch), newImages()
	reconciler.images = registries
	unchanging := func(_, _ client.Object) bool { return false }
	controllers := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: options.MaxConcurrentReconciles})
	if options.Network != nil {
		controllers.Owns(&networkingv1.NetworkPolicy{}, builder.OnlyMetadata)
	} else if err := mgr.Add(newPolicyRemover(mgr)); err != nil {
		return fmt.Errorf("set up the removal of NetworkPolicies: %w", err)
	}
	built, err := controllers.
		Named("function").
		// Its own status too: what was computed from a stale cache is computed again.
		For(&v1alpha2.Function{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(kube.ChangedOrDiffers(unchanging))).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(functionOfHPA),
			builder.WithPredicates(kube.ChangedOrDiffers(targetDiffers))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(functionOfPod),
			builder.WithPredicates(kube.ChangedOrDiffers(troubleDiffers))).
		WatchesMetadata(&corev1.ConfigMap{}, followers(mgr.GetClient(), kindConfigMap)).
		WatchesMetadata(&corev1.Secret{}, followers(mgr.GetClient(), kindSecret)).
		WatchesMetadata(&corev1.Secret{}, bound(mgr.GetClient())).
		Watches(&batchv1.Job{}, jobs(parts.Builds.Changed)).
		WatchesMetadata(&corev1.Secret{}, builders(mgr.GetClient(), parts.Registries.Concerns)).
		WatchesRawSource(source.Channel(parts.Builds.Calls(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(parts.Repositories.Events(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(reconciler.rollouts.calls, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(registries.Events(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(settingsFollowers(live.changed, mgr.GetClient())).
		Watches(crd(), handler.EnqueueRequestsFromMapFunc(scaledFunctions(mgr.GetClient()))).
		Build(reconciler)
	if err != nil {
		return fmt.Errorf("set up the Function controller: %w", err)
	}
	watch.controller = built
	if err := errors.Join(mgr.Add(parts.Builds), mgr.Add(parts.Repositories), mgr.Add(reconciler.rollouts), mgr.Add(registries)); err != nil {
		return fmt.Errorf("set up what calls the Function controller: %w", err)
	}
	return nil
}

func newReconciler(mgr ctrl.Manager, parts Parts, live *Live, watch *kedaWatch) *Reconciler {
	r := &Reconciler{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		keda:     keda{installed: watch.installed, scaledObject: liveScaledObjects(mgr.GetCache())},
		applier:  kube.NewApplier(mgr.GetClient()),
		recorder: mgr.GetEventRecorder("function-controller"),
		clock:    clock.RealClock{},
		settings: live,
		rollouts: newRollouts(func() int { return live.load().rollouts }, clock.RealClock{}),
		metrics:  newMetrics(parts.Registerer),

		ca:         parts.CA,
		registries: parts.Registries,
		slots:      parts.Builds,

		repositories: parts.Repositories,
	}
	r.progress = newProgress(r.metrics)
	return r
}

func functionOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[v1alpha2.LabelFunctionName]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: name}}}
}

// scaledFunctions finds the Functions that care whether KEDA is installed.
func scaledFunctions(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		functions := &v1alpha2.FunctionList{}
		if err := reader.List(ctx, functions); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list functions")
			return nil
		}
		var requests []reconcile.Request
		for i := range functions.Items {
			if functions.Items[i].Spec.ScaleConfig != nil {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&functions.Items[i])})
			}
		}
		return requests
	}
}
