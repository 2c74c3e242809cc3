package schedule

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/schedule"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
)

var cluster, bare = envtest.New(), envtest.New()

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m, bare))
}

// fakeCursors are those of a test.
type fakeCursors struct {
	mu      sync.Mutex
	err     error
	all     map[string]broker.Cursor
	deleted []string
}

func (f *fakeCursors) Cursor(_ context.Context, uid string) (broker.Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[uid], f.err
}

func (f *fakeCursors) CursorUIDs(context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var uids []string
	for uid := range f.all {
		uids = append(uids, uid)
	}
	return uids, nil
}

func (f *fakeCursors) DeleteCursor(_ context.Context, uid string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleted = append(f.deleted, uid)
	return nil
}

// fixture is a namespace with a controller.
type fixture struct {
	client.Client
	namespace string
	cursors   *fakeCursors
}

func start(t *testing.T, access routing.Access) *fixture {
	t.Helper()
	return startOn(t, cluster, access)
}

func startOn(t *testing.T, cluster *envtest.Cluster, access routing.Access) *fixture {
	t.Helper()
	environment := cluster.Environment(t)
	f := &fixture{Client: environment.Client, namespace: environment.Namespace(t), cursors: &fakeCursors{all: map[string]broker.Cursor{}}}
	skip := true
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: environment.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{f.namespace: {}}},
	})
	require.NoError(t, err)
	require.NoError(t, Setup(mgr, f.cursors, schedule.Share{Schedules: 2, PerMinute: 100}, access))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = mgr.Start(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return f
}

// create makes a Schedule that change changes.
func (f *fixture) create(t *testing.T, name string, change func(*v1alpha1.Schedule)) *v1alpha1.Schedule {
	t.Helper()
	s := &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec:       v1alpha1.ScheduleSpec{Cron: "0 2 * * *", Event: v1alpha1.ScheduledEvent{Type: "report.v1"}},
	}
	change(s)
	require.NoError(t, f.Create(t.Context(), s))
	return s
}

// awaitReady returns the Schedule once Ready has a reason.
func (f *fixture) awaitReady(t *testing.T, s *v1alpha1.Schedule, reason string) (metav1.Condition, v1alpha1.ScheduleStatus) {
	t.Helper()
	found := &v1alpha1.Schedule{}
	var ready *metav1.Condition
	require.Eventually(t, func() bool {
		err := f.Get(t.Context(), client.ObjectKeyFromObject(s), found)
		ready = meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionReady)
		return err == nil && ready != nil && ready.Reason == reason && found.Status.ObservedGeneration == found.Generation
	}, timeout, tick)
	return *ready, found.Status
}

func nothing(*v1alpha1.Schedule) {}

func TestAScheduleThatHoldsIsReadyWithItsNextTimes(t *testing.T) {
	t.Parallel()
	f := start(t, routing.Access{})
	ready, status := f.awaitReady(t, f.create(t, "nightly", nothing), v1alpha1.ReasonScheduled)
	require.Equal(t, metav1.ConditionTrue, ready.Status)
	require.Len(t, status.NextDue, 3)
	require.Equal(t, 24*time.Hour, status.NextDue[1].Sub(status.NextDue[0].Time))
	require.Nil(t, status.LastDue)
}

func TestReadySaysWhyNothingIsPublished(t *testing.T) {
	t.Parallel()
	f := start(t, routing.Access{})
	for reason, c := range map[string]struct {
		change func(*v1alpha1.Schedule)
		says   string
	}{
		v1alpha1.ReasonInvalid:  {func(s *v1alpha1.Schedule) { s.Spec.Cron = "0 0 30 2 *" }, "spec.cron"},
		v1alpha1.ReasonPaused:   {func(s *v1alpha1.Schedule) { s.Spec.Paused = true }, "spec.paused is true"},
		v1alpha1.ReasonFinished: {func(s *v1alpha1.Schedule) { s.Spec.Cron, s.Spec.At = "", "2001-01-01T00:00:00Z" }, "nothing is due any more"},
	} {
		name := map[string]string{v1alpha1.ReasonInvalid: "a", v1alpha1.ReasonPaused: "b", v1alpha1.ReasonFinished: "c"}[reason]
		ready, status := f.awaitReady(t, f.create(t, name, c.change), reason)
		require.Equal(t, metav1.ConditionFalse, ready.Status)
		require.Contains(t, ready.Message, c.says)
		require.Empty(t, status.NextDue)
	}
}

func TestTheYoungestOfTooManySchedulesIsNotReady(t *testing.T) {
	t.Parallel()
	f := start(t, routing.Access{})
	for _, name := range []string{"a", "b"} {
		f.awaitReady(t, f.create(t, name, nothing), v1alpha1.ReasonScheduled)
	}
	ready, _ := f.awaitReady(t, f.create(t, "c", nothing), v1alpha1.ReasonShareExceeded)
	require.Contains(t, ready.Message, "may have 2")
}

func TestANamespaceThatMayNotPublishTheEventIsTold(t *testing.T) {
	t.Parallel()
	f := start(t, routing.Access{Publish: &routing.PublishAccess{}})
	ready, _ := f.awaitReady(t, f.create(t, "nightly", nothing), v1alpha1.ReasonForbidden)
	require.NotEmpty(t, ready.Message)
}

func TestTheStatusShowsTheCursorAndKeepsItWhenThatIsLost(t *testing.T) {
	t.Parallel()
	f := start(t, routing.Access{})
	f.cursors.mu.Lock()
	f.cursors.err = errors.New("no answer")
	f.cursors.mu.Unlock()
	s := f.create(t, "nightly", nothing)
	f.awaitReady(t, s, v1alpha1.ReasonUnknown)
	due := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)
	f.cursors.mu.Lock()
	f.cursors.err = nil
	f.cursors.all[string(s.UID)] = broker.Cursor{Generation: 1, Through: due, LastDue: due, LastPublished: due, LastID: "id1", Published: 7, Missed: 2}
	f.cursors.mu.Unlock()
	unchanged := s.DeepCopy()
	s.Spec.WakeAhead = "1s" // any change
	require.NoError(t, f.Patch(t.Context(), s, client.MergeFrom(unchanged)))
	_, status := f.awaitReady(t, s, v1alpha1.ReasonScheduled)
	require.True(t, status.LastDue.Time.Equal(due))
	require.Equal(t, []any{"id1", int64(7), int64(2)}, []any{status.LastID, status.Published, status.Missed})

	before := status.DeepCopy()
	setCursor(&status, broker.Cursor{})
	require.Equal(t, before, &status, "the status alone knows what was published")
}

func TestCursorsOfDeletedSchedulesAloneAreDeleted(t *testing.T) {
	t.Parallel()
	f := start(t, routing.Access{})
	s := f.create(t, "nightly", nothing)
	f.cursors.mu.Lock()
	f.cursors.all[string(s.UID)], f.cursors.all["gone"] = broker.Cursor{}, broker.Cursor{}
	f.cursors.mu.Unlock()
	require.NoError(t, (&sweeper{live: f.Client, cursors: f.cursors}).sweep(t.Context()))
	require.Equal(t, []string{"gone"}, f.cursors.deleted)
}

func TestTheControllerBeginsWhenTheDefinitionOfSchedulesIsThere(t *testing.T) {
	t.Parallel()
	environment := bare.Environment(t)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	name := client.ObjectKey{Name: "schedules.rouse.run"}
	require.NoError(t, environment.Client.Get(t.Context(), name, definition))
	require.NoError(t, environment.Client.Delete(t.Context(), definition))
	require.Eventually(t, func() bool { return apierrors.IsNotFound(environment.Client.Get(t.Context(), name, definition)) }, timeout, tick)
	f := startOn(t, bare, routing.Access{})
	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name.Name}, Spec: definition.Spec}
	require.NoError(t, environment.Client.Create(t.Context(), again))
	var s *v1alpha1.Schedule
	require.Eventually(t, func() bool {
		s = &v1alpha1.Schedule{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "nightly"},
			Spec:       v1alpha1.ScheduleSpec{Cron: "0 2 * * *", Event: v1alpha1.ScheduledEvent{Type: "report.v1"}},
		}
		return f.Create(t.Context(), s) == nil
	}, timeout, tick)
	f.awaitReady(t, s, v1alpha1.ReasonScheduled)
}
