package serverless

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	timeout = time.Minute
	soon    = 20 * time.Millisecond
)

var cluster = envtest.New()

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m))
}

// fixture is an operator in a shared cluster, so that its tests run one after the other. There are no pods in the
// cluster: the test sets the Deployment's status.
type fixture struct {
	client.Client
	t            *testing.T
	namespace    string
	installation *resources.Installation
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	env := cluster.Environment(t)
	return &fixture{Client: env.Client, t: t, namespace: env.Namespace(t), installation: &resources.Installation{
		Namespaces: []string{"*"}, Binding: "rouse-functions",
		Roles:    resources.Roles{Functions: "rouse-functions", Leader: "rouse-functions-leader"},
		Defaults: resources.Defaults{PublisherAddress: "http://bridge/publish"},
		Controller: resources.Controller{
			Image: "rouse:1", Replicas: 1, Args: []string{"--metrics-address=:9090"}, CABundle: "-----BEGIN CERTIFICATE-----\n",
		},
		NetworkPolicy: &resources.NetworkPolicy{},
	}}
}

// start runs an operator until the test ends, or until the result is called.
func (f *fixture) start() (stop func()) {
	f.t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(f.t, err)
	controllers := config.Controller{SkipNameValidation: new(true)} // many operators in a process
	mgr, err := ctrl.NewManager(cluster.Environment(f.t).Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: controllers,
		Cache: cache.Options{ByObject: CacheObjects(f.installation)},
	})
	require.NoError(f.t, err)
	require.NoError(f.t, Setup(mgr, f.installation))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(f.t, <-ended)
		}
	}
	f.t.Cleanup(stop)
	return stop
}

// create creates a Serverless, which is deleted when the test ends.
func (f *fixture) create(namespace string, spec operatorv1alpha1.ServerlessSpec) *operatorv1alpha1.Serverless {
	f.t.Helper()
	made := &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}, Spec: spec}
	require.NoError(f.t, f.Create(f.t.Context(), made))
	f.t.Cleanup(func() {
		_ = client.IgnoreNotFound(f.Delete(context.Background(), made.DeepCopy()))
		f.until(func(ctx context.Context) bool {
			f.collect(ctx, namespace)
			return f.Get(ctx, client.ObjectKeyFromObject(made), &operatorv1alpha1.Serverless{}) != nil
		}, "the Serverless of the test goes")
	})
	return made
}

// function creates a Function, which no controller reconciles.
func (f *fixture) function() *serverlessv1alpha2.Function {
	f.t.Helper()
	fn := &serverlessv1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "price"},
		Spec: serverlessv1alpha2.FunctionSpec{
			Runtime: "nodejs22", Source: serverlessv1alpha2.Source{Inline: &serverlessv1alpha2.InlineSource{Source: "x"}},
		},
	}
	require.NoError(f.t, f.Create(f.t.Context(), fn))
	return fn
}

// until waits for something, also after the test.
func (f *fixture) until(is func(context.Context) bool, what string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return is(context.Background()) }, timeout, soon, what)
}

// status waits for a status of a Serverless.
func (f *fixture) status(namespace string, wanted func(*operatorv1alpha1.ServerlessStatus) bool) *operatorv1alpha1.ServerlessStatus {
	f.t.Helper()
	one := &operatorv1alpha1.Serverless{}
	require.Eventually(f.t, func() bool {
		err := f.Get(f.t.Context(), types.NamespacedName{Namespace: namespace, Name: "default"}, one)
		return err == nil && wanted(&one.Status)
	}, timeout, soon, "%+v", &one.Status)
	return &one.Status
}

// live returns a Serverless from the API server.
func (f *fixture) live(one *operatorv1alpha1.Serverless) *operatorv1alpha1.Serverless {
	f.t.Helper()
	fresh := &operatorv1alpha1.Serverless{}
	require.NoError(f.t, f.Get(f.t.Context(), client.ObjectKeyFromObject(one), fresh))
	return fresh
}

func hasState(state operatorv1alpha1.State) func(*operatorv1alpha1.ServerlessStatus) bool {
	return func(s *operatorv1alpha1.ServerlessStatus) bool { return s.State == state }
}

// deployment waits for the desired Deployment.
func (f *fixture) deployment(wanted func(*appsv1.Deployment) bool) *appsv1.Deployment {
	f.t.Helper()
	found := &appsv1.Deployment{}
	require.Eventually(f.t, func() bool {
		fresh := &appsv1.Deployment{}
		err := f.Get(f.t.Context(), types.NamespacedName{Namespace: f.namespace, Name: resources.DeploymentName}, fresh)
		found = fresh
		return err == nil && wanted(fresh)
	}, timeout, soon)
	return found
}

func exists(*appsv1.Deployment) bool { return true }

// rollOut sets the status of a Deployment whose pods run its current version.
func (f *fixture) rollOut() {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		known := f.deployment(exists)
		known.Status = appsv1.DeploymentStatus{
			ObservedGeneration: known.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{
				condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", ""),
				condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", ""),
			},
		}
		return f.Status().Update(f.t.Context(), known) == nil
	}, timeout, soon)
}

// collect acts as the garbage collector, which deletes a Deployment with its pods.
func (f *fixture) collect(ctx context.Context, namespace string) {
	known := &appsv1.Deployment{}
	key := types.NamespacedName{Namespace: namespace, Name: resources.DeploymentName}
	if f.Get(ctx, key, known) != nil || known.DeletionTimestamp == nil {
		return
	}
	known.Finalizers = nil
	_ = f.Update(ctx, known)
}

// events waits for an Event with this note.
func (f *fixture) event(note string) *eventsv1.Event {
	f.t.Helper()
	var found *eventsv1.Event
	f.until(func(ctx context.Context) bool {
		all := &eventsv1.EventList{}
		if f.List(ctx, all, client.InNamespace(f.namespace)) != nil {
			return false
		}
		for i := range all.Items {
			if all.Items[i].Note == note {
				found = &all.Items[i]
			}
		}
		return found != nil
	}, note)
	return found
}
