package function

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/settings"
)

// publishes returns the address to which the pods of a Deployment publish.
func publishes(deployment *appsv1.Deployment) string {
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "PUBLISHER_PROXY_ADDRESS" {
			return variable.Value
		}
	}
	return ""
}

// rollOut acts as the Deployment controller when the pods of the present template run.
func (w *fixture) rollOut(deployment *appsv1.Deployment) {
	updateStatus(w, deployment, func(d *appsv1.Deployment) {
		replicas := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: reasonReplicasAvailable},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reasonRolloutDone},
			},
		}
	})
}

func TestFunctionsFollowChangedSettingsWithoutARestart(t *testing.T) {
	const before, after = "http://before/publish", "http://after/publish"
	options := testOptions()
	options.PublisherAddress = before
	live := NewLive(options, true)
	live.Apply(&settings.Settings{MaxRollouts: 2})
	runManagerWith(t, simultaneous, live, func(o *Options) { *o = options })
	var awake []*appsv1.Deployment
	var places []*fixture
	for range 5 { // namespaces
		w := newFixture(t)
		deployment := w.deployment(w.create())
		require.Equal(t, before, publishes(deployment))
		w.rollOut(deployment)
		awake, places = append(awake, deployment), append(places, w)
	}
	w := newFixture(t)
	sleeper := w.create(scaled(0, 5))
	asleep, object := w.deployment(sleeper), w.scaledObject(sleeper)
	w.scale(asleep, 0)
	await(w, asleep, "it sleeps", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 0 })

	live.Apply(&settings.Settings{MaxRollouts: 2, PublisherAddress: after, PollingInterval: 33_000_000_000})
	await(w, asleep, "one that sleeps follows at once", func(d *appsv1.Deployment) bool { return publishes(d) == after })
	require.Zero(t, *asleep.Spec.Replicas, "and sleeps on")
	await(w, object, "intervals concern no pods", func(o *unstructured.Unstructured) bool {
		seconds, _, _ := unstructured.NestedInt64(o.Object, "spec", "pollingInterval")
		return seconds == 33
	})

	followed := map[int]bool{}
	for len(followed) < len(awake) {
		require.Eventually(t, func() bool { // two at a time
			return countFollowed(t, places, awake, after) == min(len(followed)+2, len(awake))
		}, timeout, tick)
		settle()
		require.Equal(t, min(len(followed)+2, len(awake)), countFollowed(t, places, awake, after), "further Functions must wait until these run")
		for i, deployment := range awake {
			if publishes(deployment) == after && !followed[i] {
				places[i].rollOut(deployment)
				followed[i] = true
			}
		}
	}

	// A change of a Function itself does not wait for a rollout slot, and includes the settings.
	live.Apply(&settings.Settings{MaxRollouts: 1, PublisherAddress: before})
	first, fresh := places[0], &v1alpha2.Function{}
	require.NoError(t, first.Get(t.Context(), client.ObjectKeyFromObject(awake[0]), fresh))
	update(first, fresh, func(fn *v1alpha2.Function) { fn.Spec.Env = append(fn.Spec.Env, corev1.EnvVar{Name: "A", Value: "1"}) })
	await(first, awake[0], "its own change is at once", func(d *appsv1.Deployment) bool {
		env := d.Spec.Template.Spec.Containers[0].Env
		for i := range env {
			if env[i].Name == "A" {
				return publishes(d) == before
			}
		}
		return false
	})
}

func countFollowed(t *testing.T, places []*fixture, deployments []*appsv1.Deployment, address string) (count int) {
	t.Helper()
	for i, deployment := range deployments {
		require.NoError(t, places[i].Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
		if publishes(deployment) == address {
			count++
		}
	}
	return count
}

func TestNoPodIsReplacedWhileTheSettingsAreUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction())
	_, err := b.reconcile()
	require.NoError(t, err)
	read := func() *appsv1.Deployment {
		deployment := &appsv1.Deployment{}
		require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, deployment))
		return deployment
	}
	before := read()

	// The process restarts with a different command line, and the ConfigMap is missing or invalid.
	options := testOptions()
	options.PublisherAddress = "http://flag/publish"
	b.settings = NewLive(options, true)
	_, err = b.reconcile()
	require.NoError(t, err)
	require.Equal(t, publishes(before), publishes(read()))

	b.settings.Apply(&settings.Settings{PublisherAddress: "http://file/publish"})
	_, err = b.reconcile()
	require.NoError(t, err)
	require.Equal(t, "http://file/publish", publishes(read()))
}

func TestDeploymentHashesDistinguishSpecFromSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction())
	_, err := b.reconcile()
	require.NoError(t, err)
	deployment := &appsv1.Deployment{}
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, deployment))
	for name, tc := range map[string]struct {
		settings settings.Settings
		change   func(*v1alpha2.Function)
		want     difference
	}{
		"nothing":                          {want: none},
		"publisher":                        {settings: settings.Settings{PublisherAddress: "http://b"}, want: bySettings},
		"collector":                        {settings: settings.Settings{TraceCollector: new("http://c")}, want: bySettings},
		"profile":                          {settings: settings.Settings{DefaultProfile: "S"}, want: bySettings},
		"the default profile's definition": {settings: settings.Settings{Profiles: map[string]corev1.ResourceRequirements{"L": {}}}, want: bySettings},
		"an interval":                      {settings: settings.Settings{CooldownPeriod: new(rolloutTimeout)}, want: none},
		"the Function":                     {change: func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"a": "b"} }, want: bySpec},
		"both":                             {settings: settings.Settings{DefaultProfile: "S"}, change: func(fn *v1alpha2.Function) { fn.Spec.Runtime = "python312" }, want: bySpec},
		"an unused profile":                {settings: settings.Settings{Profiles: map[string]corev1.ResourceRequirements{"XL": {}}}, want: none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := NewLive(testOptions(), false)
			live.Apply(&tc.settings)
			fn := newFunction()
			if tc.change != nil {
				tc.change(fn)
			}
			s := &scope{fn: fn, settings: live.load().Settings}
			require.NoError(t, b.decide(t.Context(), s))
			require.Equal(t, tc.want, differs(deployment, wants(t, s)))
		})
	}
	require.Equal(t, bySpec, differs(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{}}, wants(t, func() *scope {
		s := &scope{fn: newFunction(), settings: NewLive(testOptions(), false).load().Settings}
		require.NoError(t, b.decide(t.Context(), s))
		return s
	}())), "one of an earlier version follows at once, as before")
}

func wants(t *testing.T, s *scope) *appsv1ac.DeploymentApplyConfiguration {
	t.Helper()
	wanted, err := wantedDeployment(s)
	require.NoError(t, err)
	return wanted
}

func inNamespace(namespace string, numbers ...int) []types.NamespacedName {
	all := make([]types.NamespacedName, len(numbers))
	for i, number := range numbers {
		all[i] = types.NamespacedName{Namespace: namespace, Name: strconv.Itoa(number)}
	}
	return all
}

func TestARolloutSlotIsHeldUntilThePodsOfTheNewSettingsRun(t *testing.T) {
	t.Parallel()
	scopeOf := func(template string, replicas int32, status appsv1.DeploymentStatus) *scope {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: status}
		deployment.Spec.Replicas = new(replicas)
		deployment.Spec.Template.Annotations = map[string]string{resources.AnnotationTemplate: template}
		fn := newFunction()
		fn.Spec.Replicas = new(replicas)
		return &scope{fn: fn, code: resources.Code{Image: "i"}, template: "new", deployment: deployment}
	}
	ready := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	starting := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, ReadyReplicas: 1, UnavailableReplicas: 1}
	unseen := ready
	unseen.ObservedGeneration = 1
	postponed := scopeOf("new", 1, ready)
	postponed.postponed = true
	written := scopeOf("new", 1, ready)
	written.change = updated
	for name, tc := range map[string]struct {
		scope *scope
		want  bool
	}{
		"its pods run":   {scopeOf("new", 1, ready), true},
		"its pods start": {scopeOf("new", 1, starting), false},
		"the Deployment controller has not seen it":       {scopeOf("new", 1, unseen), false},
		"the cache holds the Deployment before it":        {scopeOf("old", 1, ready), false},
		"it was written just now":                         {written, false},
		"it waits for its turn":                           {postponed, false},
		"it fell asleep after the slot was given to it":   {scopeOf("new", 0, appsv1.DeploymentStatus{}), true},
		"it falls asleep and its last pod is still there": {scopeOf("new", 0, starting), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, hasFollowed(tc.scope))
		})
	}
}

func TestRolloutSlotsAreBounded(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	var entered []types.NamespacedName
	for i := range 10 {
		for _, fn := range inNamespace(strconv.Itoa(i), 1) {
			if slots.enter(fn, 4, now) {
				entered = append(entered, fn)
			}
			slots.enter(fn, 4, now) // no effect
		}
	}
	require.Len(t, entered, 4)
	require.Empty(t, slots.next(4, now))
	for followed := 4; followed < 10; followed++ {
		require.True(t, slots.leave(entered[0]))
		called := slots.next(4, now)
		require.Len(t, called, 1)
		require.Equal(t, strconv.Itoa(followed), called[0].Namespace, "the first comes first")
		require.True(t, slots.enter(called[0], 4, now))
		entered = append(entered[1:], called[0])
	}
	for _, fn := range entered {
		require.True(t, slots.leave(fn))
		require.False(t, slots.leave(fn))
	}
	require.Empty(t, slots.next(4, now))
	require.Empty(t, slots.held)
	require.Zero(t, slots.waiting.Len())
	require.Empty(t, slots.queued)
}

func TestNamespaceWithManyFunctionsDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	entered := 0
	for _, fn := range inNamespace("many", 1, 2, 3, 4, 5, 6, 7, 8) {
		if slots.enter(fn, 4, now) {
			entered++
		}
	}
	require.Equal(t, 2, entered, "half of the slots")
	other := inNamespace("few", 1)[0]
	require.False(t, slots.enter(other, 4, now), "waiting Functions go first")
	require.Equal(t, []types.NamespacedName{other}, slots.next(4, now))
	require.True(t, slots.leave(inNamespace("many", 1)[0]))
	require.Equal(t, inNamespace("many", 3), slots.next(4, now))
}

func TestARolloutSlotExpires(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	stuck, next := inNamespace("stuck", 1)[0], inNamespace("shop", 1)[0]
	require.True(t, slots.enter(stuck, 1, now))
	require.False(t, slots.enter(next, 1, now))
	require.Empty(t, slots.next(1, now.Add(rolloutTimeout-time.Nanosecond)))
	require.Equal(t, []types.NamespacedName{next}, slots.next(1, now.Add(rolloutTimeout)))
}

func TestADeletedFunctionLeavesTheRolloutQueue(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	all := inNamespace("shop", 1, 2, 3)
	for _, fn := range all {
		slots.enter(fn, 1, now)
	}
	require.True(t, slots.leave(all[1]))
	require.True(t, slots.leave(all[0]))
	require.Equal(t, all[2:], slots.next(1, now))
}

func TestAddedRolloutSlotsAreUsedAtOnce(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	for i := range 6 {
		slots.enter(inNamespace(strconv.Itoa(i), 1)[0], 1, now)
	}
	require.Len(t, slots.next(4, now), 3)
}
