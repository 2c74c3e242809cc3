package function

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	// simultaneous is a number of builds that limits only the tests about limits.
	simultaneous     = 100
	releaseNamespace = "rouse-system"

	timeout = time.Minute
	tick    = 50 * time.Millisecond
)

// cluster is the control plane of all tests here.
var cluster = envtest.New(envtest.WithKEDA())

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// fixture is the environment of one test: a namespace of its own.
type fixture struct {
	client.Client
	t         *testing.T
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	env := cluster.Environment(t)
	return &fixture{Client: env.Client, t: t, namespace: env.Namespace(t)}
}

// runManager runs the controller until the test and its parts have ended.
func runManager(t *testing.T, simultaneous int, change ...func(*Options)) *fakeRepositories {
	t.Helper()
	return runManagerWith(t, simultaneous, nil, change...)
}

func runManagerWith(t *testing.T, simultaneous int, settings *Live, change ...func(*Options)) *fakeRepositories {
	t.Helper()
	repositories := newFakeRepositories()
	ctrllog.SetLogger(logr.Discard())
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	controllers := config.Controller{SkipNameValidation: new(true)} // for -count
	mgr, err := ctrl.NewManager(cluster.Environment(t).Config, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ByObject: CacheObjects(), DefaultTransform: Transform},
		Controller: controllers,
	})
	require.NoError(t, err)
	options := testOptions()
	options.Build.MaxSimultaneous = simultaneous
	for _, c := range change {
		c(&options)
	}
	require.NoError(t, Setup(t.Context(), mgr, Parts{
		Registerer:   prometheus.NewRegistry(),
		Registries:   images.NewResolver(mgr.GetClient(), mgr.GetAPIReader(), registryOptions(), nil),
		Repositories: repositories,
		Builds:       buildqueue.NewQueue(buildLimits(simultaneous), buildqueue.JobReader{Reader: mgr.GetClient()}, clock.RealClock{}),
		Settings:     settings,
	}, options))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		forgetFunctions(t)
	})
	return repositories
}

// forgetFunctions removes all work for the next manager.
func forgetFunctions(t *testing.T) {
	t.Helper()
	c, ctx := cluster.Environment(t).Client, context.Background()
	functions, jobs := &v1alpha2.FunctionList{}, &batchv1.JobList{}
	require.NoError(t, c.List(ctx, functions))
	for i := range functions.Items {
		require.NoError(t, client.IgnoreNotFound(c.Delete(ctx, &functions.Items[i])))
	}
	require.NoError(t, c.List(ctx, jobs))
	for i := range jobs.Items {
		err := c.Delete(ctx, &jobs.Items[i], client.PropagationPolicy(metav1.DeletePropagationBackground))
		require.NoError(t, client.IgnoreNotFound(err))
	}
}

func testOptions() Options {
	options := DefaultOptions()
	options.DefaultProfile = "L"
	options.Build.Builder = "rouse:1"
	options.RuntimeImages = map[string]string{"nodejs22": "runtime-nodejs22:1", "python312": "runtime-python312:1"}
	return options
}

// create creates a Function, with changes.
func (w *fixture) create(changes ...func(*v1alpha2.Function)) *v1alpha2.Function {
	w.t.Helper()
	fn := newFunction(changes...)
	fn.Namespace, fn.UID, fn.Generation = w.namespace, "", 0
	require.NoError(w.t, w.Create(w.t.Context(), fn))
	return fn
}

// update changes the newest version of an object.
func update[T client.Object](w *fixture, object T, change func(T)) {
	w.t.Helper()
	w.eventually(func() error {
		if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return w.Update(w.t.Context(), object)
	})
}

// updateStatus acts as an absent controller.
func updateStatus[T client.Object](w *fixture, object T, change func(T)) {
	w.t.Helper()
	w.eventually(func() error {
		if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return w.Status().Update(w.t.Context(), object)
	})
}

// await reads object until holds is true.
func await[T client.Object](w *fixture, object T, what string, holds func(T) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		err := w.Get(w.t.Context(), client.ObjectKeyFromObject(object), object)
		return err == nil && holds(object)
	}, timeout, tick, "%s; last seen: %+v", what, object)
}

// awaitCondition waits for a condition of the Function and returns it.
func (w *fixture) awaitCondition(fn *v1alpha2.Function, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	w.t.Helper()
	var found metav1.Condition
	require.Eventually(w.t, func() bool {
		if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(fn), fn); err != nil {
			return false
		}
		condition := meta.FindStatusCondition(fn.Status.Conditions, kind)
		if condition != nil {
			found = *condition
		}
		return found.Status == status && found.Reason == reason
	}, timeout, tick, "condition %s never became %s %s; last seen: %+v", kind, status, reason, &found)
	return found
}

func (w *fixture) eventually(act func() error) {
	w.t.Helper()
	var err error
	require.Eventually(w.t, func() bool {
		err = act()
		return err == nil
	}, timeout, tick, "last error: %v", err)
}

// newFunction returns a small valid Function.
func newFunction(changes ...func(*v1alpha2.Function)) *v1alpha2.Function {
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "price", Namespace: "shop", UID: "uid-of-price", Generation: 1},
		Spec: v1alpha2.FunctionSpec{
			Runtime: v1alpha2.RuntimeNodeJS22,
			Source:  v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "module.exports = { main: () => 'ok' }"}},
		},
	}
	for _, change := range changes {
		change(fn)
	}
	return fn
}

func scaled(low, high int32) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) {
		fn.Spec.ScaleConfig = &v1alpha2.ScaleConfig{MinReplicas: new(low), MaxReplicas: new(high)}
	}
}

func replicas(count int32) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) { fn.Spec.Replicas = new(count) }
}

// untypedScaledObjects reads them from a client that does not have their type: with it a fake client would drop the
// other fields.
func untypedScaledObjects(reader client.Reader) func(context.Context, client.ObjectKey) (*resources.LiveScaledObject, error) {
	return func(ctx context.Context, key client.ObjectKey) (*resources.LiveScaledObject, error) {
		found := scaledObject()
		if err := reader.Get(ctx, key, found); err != nil {
			return nil, err
		}
		return liveScaledObject(found)
	}
}

func liveScaledObject(found *unstructured.Unstructured) (*resources.LiveScaledObject, error) {
	live := &resources.LiveScaledObject{}
	return live, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, live)
}

// fakeRepositories are repositories whose references the test moves.
type fakeRepositories struct {
	events chan event.GenericEvent

	mu        sync.Mutex
	found     map[string]gitpoll.Finding // by URL
	functions map[types.NamespacedName]gitpoll.Want
}

func newFakeRepositories() *fakeRepositories {
	return &fakeRepositories{
		events: make(chan event.GenericEvent, 100),
		found:  map[string]gitpoll.Finding{}, functions: map[types.NamespacedName]gitpoll.Want{},
	}
}

func (r *fakeRepositories) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (r *fakeRepositories) Events() <-chan event.GenericEvent { return r.events }

func (r *fakeRepositories) Commit(fn types.NamespacedName, want gitpoll.Want) (gitpoll.Finding, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.functions[fn] = want
	found, ok := r.found[want.URL]
	return found, ok
}

func (r *fakeRepositories) Forget(fn types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.functions, fn)
}

// find completes a check of the repository.
func (r *fakeRepositories) find(url string, found gitpoll.Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found[url] = found
	for fn, want := range r.functions {
		if want.URL != url {
			continue
		}
		object := &v1alpha2.Function{}
		object.Namespace, object.Name = fn.Namespace, fn.Name
		r.events <- event.GenericEvent{Object: object}
	}
}
