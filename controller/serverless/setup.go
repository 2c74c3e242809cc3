package serverless

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
)

// Options configures the operator.
type Options struct {
	// InstallationFile is the chart's description of the installation.
	InstallationFile string
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.InstallationFile, "installation-file", "what the chart says about the Function controller to install, as YAML").NotEmpty()
}

// Delays before failures are retried.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// watched are the kinds of parts that are watched. The lease is not: its holder writes it every two seconds.
var watched = []schema.GroupVersionKind{
	resources.KindDeployment, resources.KindAccount, resources.KindConfigMap, resources.KindService,
	resources.KindRoleBinding, resources.KindNetworkPolicy,
}

// CacheObjects limits the manager's cache: of the parts' kinds, objects with our label in namespaces where a Serverless
// may be. Setup relies on it; pass it to the manager as cache.Options.ByObject.
func CacheObjects(installation *resources.Installation) map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{resources.LabelManagedBy: resources.ManagedBy})
	namespaces := map[string]cache.Config{}
	for _, namespace := range installation.Namespaces {
		if namespace == resources.AllNamespaces {
			namespaces = map[string]cache.Config{metav1.NamespaceAll: {}}
			break
		}
		namespaces[namespace] = cache.Config{}
	}
	limits := map[client.Object]cache.ByObject{
		metadataOf(resources.KindClusterRoleBinding): {Field: fields.OneTermEqualSelector("metadata.name", installation.Binding)},
	}
	for _, kind := range watched {
		limits[metadataOf(kind)] = cache.ByObject{Label: ours, Namespaces: namespaces}
	}
	return limits
}

// Setup adds the operator to a manager whose cache is limited by CacheObjects.
func Setup(mgr ctrl.Manager, installation *resources.Installation) error {
	collectors, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			metadataOf(corev1.SchemeGroupVersion.WithKind("Service")): {Field: fields.OneTermEqualSelector("metadata.name", collectorName)},
		},
	})
	if err != nil {
		return fmt.Errorf("create a cache of trace collectors: %w", err)
	}
	if err := mgr.Add(collectors); err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}
	reconciler := &Reconciler{
		client:       mgr.GetClient(),
		live:         mgr.GetAPIReader(),
		collectors:   collectors,
		applier:      kube.NewApplierAs(mgr.GetClient(), kube.OperatorFieldOwner),
		recorder:     mgr.GetEventRecorder("serverless-operator"),
		clock:        clock.RealClock{},
		installation: installation,
	}
	every := handler.EnqueueRequestsFromMapFunc(everyServerless(mgr.GetClient()))
	b := kube.NewController(mgr, controller.Options{
		MaxConcurrentReconciles: 1, // the choice of the served one depends on all of them
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}).
		Named("serverless").
		For(&operatorv1alpha1.Serverless{}).
		Watches(&operatorv1alpha1.Serverless{}, every, builder.WithPredicates(kube.ChangedOrDiffers(servedDiffers))).
		WatchesMetadata(metadataOf(resources.KindClusterRoleBinding), every).
		WatchesRawSource(source.Kind(collectors, metadataOf(corev1.SchemeGroupVersion.WithKind("Service")),
			handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, _ *metav1.PartialObjectMetadata) []reconcile.Request {
				return everyServerless(mgr.GetClient())(ctx, nil)
			})))
	for _, kind := range watched {
		b = b.WatchesMetadata(metadataOf(kind), handler.EnqueueRequestsFromMapFunc(concerned(mgr.GetClient())))
	}
	if err = b.Complete(reconciler); err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}
	return nil
}

// everyServerless returns a request for each Serverless, of which there is rarely more than one.
func everyServerless(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		all, _ := listAll(ctx, reader)
		return requestsFor(all)
	}
}

// concerned returns requests for the Serverlesses that may own a part, and for its namespace when its Serverless is
// deleted.
func concerned(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, part client.Object) []reconcile.Request {
		all, known := listAll(ctx, reader)
		requests := requestsFor(all)
		if known && leftBehind(all)(part) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: part.GetNamespace()}})
		}
		return requests
	}
}

// listAll returns false when the list fails.
func listAll(ctx context.Context, reader client.Reader) (all []operatorv1alpha1.Serverless, known bool) {
	found := &operatorv1alpha1.ServerlessList{}
	if err := reader.List(ctx, found); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list Serverlesses")
		return nil, false
	}
	return found.Items, true
}

func requestsFor(all []operatorv1alpha1.Serverless) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(all))
	for i := range all {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all[i])})
	}
	return requests
}

// servedDiffers reports whether another Serverless may have to be served instead.
func servedDiffers(before, after client.Object) bool {
	old, ok := before.(*operatorv1alpha1.Serverless)
	now, same := after.(*operatorv1alpha1.Serverless)
	return ok && same && old.Status.Served != now.Status.Served
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}
