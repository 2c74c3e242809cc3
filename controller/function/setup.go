package function

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/kube"
)

// Parts are the dependencies of the controller.
type Parts struct {
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Registries finds the registry of a Function.
	Registries *images.Resolver
	// Builds grants the slots for builds.
	Builds *buildqueue.Queue
	// Repositories watches the Git repositories of Functions.
	Repositories Repositories
	// CA holds PEM certificates that builds trust in addition to those of their images.
	CA []byte
	// Settings are those of the options and may change; nil: they do not.
	Settings *Live
}

// Setup adds the Function controller and its queue to a manager whose cache is limited by CacheObjects.
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
	reconciler, queried := newReconciler(mgr, parts, live, watch), newRegistryQueries()
	reconciler.registries = registryClient{parts.Registries, queried}
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
		Watches(&appsv1.Deployment{}, kube.Settled(functionOfOwned(mgr.GetClient()), statusPause)).
		Owns(&corev1.Service{}).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(kube.ChangedOrDiffers(scalingActiveDiffers))).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(functionOfHPA),
			builder.WithPredicates(kube.ChangedOrDiffers(targetDiffers))).
		Watches(&corev1.Pod{}, kube.Settled(handler.EnqueueRequestsFromMapFunc(functionOfPod), statusPause),
			builder.WithPredicates(kube.ChangedOrDiffers(troubleDiffers))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(functionOfPod), builder.WithPredicates(endsBuild())).
		WatchesMetadata(&corev1.ConfigMap{}, followers(mgr.GetClient(), kindConfigMap)).
		WatchesMetadata(&corev1.Secret{}, followers(mgr.GetClient(), kindSecret)).
		WatchesMetadata(&corev1.Secret{}, bound(mgr.GetClient())).
		Watches(&batchv1.Job{}, jobs(parts.Builds.Changed)).
		WatchesMetadata(&corev1.Secret{}, builders(mgr.GetClient(), parts.Registries.Concerns)).
		WatchesRawSource(source.Channel(parts.Builds.Calls(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(parts.Repositories.Events(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(reconciler.rollouts.calls, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(queried.events, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(settingsFollowers(live.changed, mgr.GetClient())).
		Watches(kube.ScaledObjectDefinition(), handler.EnqueueRequestsFromMapFunc(scaledFunctions(mgr.GetClient()))).
		Build(reconciler)
	if err != nil {
		return fmt.Errorf("set up the Function controller: %w", err)
	}
	watch.controller = built
	if err := errors.Join(mgr.Add(parts.Builds), mgr.Add(parts.Repositories), mgr.Add(reconciler.rollouts), mgr.Add(queried)); err != nil {
		return fmt.Errorf("set up the event sources of the Function controller: %w", err)
	}
	return nil
}

// statusPause is the pause after which a Function's status follows its Deployment and its pods. A wake is over by then.
const statusPause = 500 * time.Millisecond

// functionOfOwned finds the Function that controls an object.
func functionOfOwned(c client.Client) handler.EventHandler {
	return handler.EnqueueRequestForOwner(c.Scheme(), c.RESTMapper(), &v1alpha2.Function{}, handler.OnlyControllerOwner())
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

		ca:    parts.CA,
		slots: parts.Builds,

		repositories: parts.Repositories,
		files:        newFileDigests(),
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

// scaledFunctions finds the Functions that depend on whether KEDA is installed.
func scaledFunctions(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		return functionRequests(ctx, reader, func(fn *v1alpha2.Function) bool { return fn.Spec.ScaleConfig != nil })
	}
}

func everyFunction(*v1alpha2.Function) bool { return true }

// functionRequests returns a request for each Function of the cache that matches the options and the condition.
func functionRequests(
	ctx context.Context, reader client.Reader, matches func(*v1alpha2.Function) bool, options ...client.ListOption,
) []reconcile.Request {
	functions := &v1alpha2.FunctionList{}
	if err := reader.List(ctx, functions, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the Functions to reconcile after a change")
		return nil
	}
	var requests []reconcile.Request
	for i := range functions.Items {
		if fn := &functions.Items[i]; matches(fn) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(fn)})
		}
	}
	return requests
}

// concerns reports for which Functions a Secret may choose the registry.
type concerns func(secret client.ObjectKey) (all, namespace bool)

// builders finds the Functions whose builds or pods use a Secret, or for which the Secret was made.
func builders(reader client.Reader, concerns concerns) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, secret client.Object) []reconcile.Request {
		if own := functionOfPod(ctx, secret); own != nil {
			return own
		}
		var within []client.ListOption
		switch everywhere, here := concerns(client.ObjectKeyFromObject(secret)); {
		case everywhere:
		case here:
			within = append(within, client.InNamespace(secret.GetNamespace()))
		default:
			within = append(within, client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretIndex: secret.GetName()})
		}
		return functionRequests(ctx, reader, everyFunction, within...)
	})
}

// jobs finds the Function of a build, and notifies the queue of the change.
func jobs(changed func()) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, job client.Object) []reconcile.Request {
		changed()
		return functionOfPod(ctx, job)
	})
}

// Indexes of the manager's cache, each within a namespace. Without them each reconciliation, and each change of a Secret,
// would scan the whole namespace.
const (
	// referenceIndex finds the Functions whose pods follow a ConfigMap or Secret, or whose source is in a ConfigMap.
	referenceIndex = "followed"
	// secretIndex finds the Functions whose builds or pods use a Secret.
	secretIndex = "rouse.secret"
	// ownerIndex finds the pods, Jobs and Secrets of a Function, by its UID.
	ownerIndex = "rouse.function"
	// targetIndex finds the autoscalers of a Function, by its name.
	targetIndex = "rouse.target"
)

// index is an index of the manager's cache.
type index struct {
	object client.Object
	field  string
	values client.IndexerFunc
}

func indexes() []index {
	return []index{
		{&v1alpha2.Function{}, referenceIndex, indexReferences},
		{&v1alpha2.Function{}, secretIndex, indexSecrets},
		{&appsv1.Deployment{}, boundIndex, indexBound},
		{&corev1.Pod{}, ownerIndex, indexOwner},
		{&batchv1.Job{}, ownerIndex, indexOwner},
		{metadataOf(kindSecret), ownerIndex, indexOwner},
		{&autoscalingv2.HorizontalPodAutoscaler{}, targetIndex, indexTarget},
	}
}

func indexObjects(ctx context.Context, indexer client.FieldIndexer) error {
	for _, each := range indexes() {
		if err := indexer.IndexField(ctx, each.object, each.field, each.values); err != nil {
			return fmt.Errorf("index %T by %q: %w", each.object, each.field, err)
		}
	}
	return nil
}

// indexSecrets omits the Secrets that a Function follows, which have an index of their own.
func indexSecrets(object client.Object) []string {
	fn, ok := object.(*v1alpha2.Function)
	if !ok {
		return nil
	}
	names := buildSecrets(fn)
	for _, mount := range fn.Spec.SecretMounts {
		names = append(names, mount.SecretName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func indexOwner(object client.Object) []string {
	if uid := object.GetLabels()[v1alpha2.LabelUUID]; uid != "" {
		return []string{uid}
	}
	return nil
}

func indexTarget(object client.Object) []string {
	if hpa, ok := object.(*autoscalingv2.HorizontalPodAutoscaler); ok && targetOf(hpa) != "" {
		return []string{targetOf(hpa)}
	}
	return nil
}

// keptAnnotations are the annotations that are read: Helm's names the release of an object.
var keptAnnotations = append([]string{kube.AnnotationApplied, apirule.AnnotationFrom, "meta.helm.sh/release-name"}, v1alpha2.ScaleAnnotations()...)

// longestScale is longer than any other valid value of an annotation that scales a workload. What is longer stays wrong when it is cut.
const longestScale, longestTriggers = 300, resources.LongestTriggers + 1

// withoutNotes keeps the annotations that are read.
func withoutNotes(annotations map[string]string) {
	maps.DeleteFunc(annotations, func(name, _ string) bool { return !slices.Contains(keptAnnotations, name) })
	for _, name := range v1alpha2.ScaleAnnotations() {
		longest := longestScale
		if name == v1alpha2.AnnotationTriggers {
			longest = longestTriggers
		}
		if value := annotations[name]; len(value) > longest {
			annotations[name] = strings.Clone(value[:longest])
		}
	}
}

// CacheObjects limits the manager's cache: Deployments and pods with our label only, and no parts that no reconciler
// reads. Setup relies on it; pass it to the manager as cache.Options.ByObject, with Transform as its DefaultTransform.
// ConfigMaps and Secrets must be read past the cache. A default transform must not drop managed fields, which show
// whether an object has to be applied. Services keep what APIRules need, too.
func CacheObjects() map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy})
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}:                     {Label: ours, Transform: withoutPodSpec},
		&corev1.Pod{}:                            {Label: ours, Transform: withoutPodSpec},
		&batchv1.Job{}:                           {Label: ours, Transform: withoutPodSpec},
		&corev1.Service{}:                        {Transform: withoutServiceDetails},
		&v1alpha2.Function{}:                     {Transform: withSharedTexts},
		&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: withoutMeasures},
		kube.ScaledObjectDefinition():            {Field: fields.OneTermEqualSelector("metadata.name", kube.ScaledObjectCRD)},
		metadataOf(kindConfigMap):                {Transform: withoutContent},
		metadataOf(kindSecret):                   {Transform: withoutContent},
		metadataOf(kindNamespace):                {Transform: onlyStandIns},
	}
}

// Transform limits what the cache holds of ScaledObjects. Their kind cannot be part of CacheObjects: a cache cannot be
// created while their definition is missing.
func Transform(object any) (any, error) {
	if scaledObject, ok := object.(*resources.LiveScaledObject); ok {
		withoutNotes(scaledObject.Annotations)
		kube.Share(scaledObject)
	}
	return object, nil
}

func withSharedTexts(object any) (any, error) {
	if fn, ok := object.(*v1alpha2.Function); ok {
		kube.ShareTexts(fn)
		for i := range fn.Status.Conditions {
			condition := &fn.Status.Conditions[i]
			kube.ShareText(&condition.Type)
			kube.ShareText(&condition.Status)
			kube.ShareText(&condition.Reason)
		}
	}
	return kube.WithoutManagedFields(object)
}

// withoutPodSpec drops the fields that carry source code, and a Deployment's selector, which its Function determines.
// It keeps what was bound to a Deployment's pods.
func withoutPodSpec(object any) (any, error) {
	switch typed := object.(type) {
	case *appsv1.Deployment:
		typed.Spec.Selector = nil
		typed.Spec.Template = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: typed.Spec.Template.Annotations}, Spec: resources.Projected(&typed.Spec.Template),
		}
		kube.Share(typed)
	case *corev1.Pod:
		typed.Spec = corev1.PodSpec{}
		typed.ManagedFields = nil
	case *batchv1.Job:
		typed.Spec.Template = corev1.PodTemplateSpec{}
		typed.ManagedFields = nil
	}
	return object, nil
}

// withoutServiceDetails keeps a Service's target and owner, and which APIRules may lead to it.
func withoutServiceDetails(object any) (any, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	service.Status = corev1.ServiceStatus{}
	withoutNotes(service.Annotations)
	if service.Labels[v1alpha2.LabelManagedBy] == v1alpha2.ManagedBy {
		kube.Share(service)
		return service, nil
	}
	for i := range service.ManagedFields {
		service.ManagedFields[i].FieldsV1 = nil // the manager's name is shown to users
	}
	return service, nil
}

// withoutMeasures keeps only the target of users' autoscalers, and whether ours scale.
func withoutMeasures(object any) (any, error) {
	hpa, ok := object.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return object, nil
	}
	conditions := slices.DeleteFunc(hpa.Status.Conditions, func(condition autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return condition.Type != autoscalingv2.ScalingActive
	})
	hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
	if hpa.Labels[v1alpha2.LabelManagedBy] == v1alpha2.ManagedBy {
		hpa.Status.Conditions = conditions
		kube.Share(hpa)
		return hpa, nil
	}
	hpa.ManagedFields, hpa.Annotations, hpa.Spec.Metrics, hpa.Spec.Behavior = nil, nil, nil, nil
	return hpa, nil
}

// onlyStandIns keeps of a Namespace how many stand-ins it has.
func onlyStandIns(object any) (any, error) {
	typed, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	wanted, has := typed.GetAnnotations()[v1alpha2.AnnotationStandIns]
	typed.SetAnnotations(nil)
	typed.SetManagedFields(nil)
	if has {
		typed.SetAnnotations(map[string]string{v1alpha2.AnnotationStandIns: wanted})
	}
	return object, nil
}

// withoutContent drops what a metadata cache does not need. An annotation of kubectl contains the values of a Secret.
// The managed fields of our own Secrets show whether others have changed them.
func withoutContent(object any) (any, error) {
	typed, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	typed.SetAnnotations(kube.OnlyMark(typed.GetAnnotations()))
	if typed.GetLabels()[v1alpha2.LabelManagedBy] == v1alpha2.ManagedBy {
		kube.Share(typed)
	} else {
		typed.SetManagedFields(nil)
	}
	return object, nil
}
