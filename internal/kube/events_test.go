package kube

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	eventrecord "k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func TestAnObjectThatChangesForEverHasAFewEvents(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	namespace := env.Namespace(t)
	plain, err := ctrl.NewManager(env.Config, ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	bounded, err := BoundEvents(plain)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bounded.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	recorder := bounded.GetEventRecorder("function-controller")
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1"}}
	}
	found := func() map[string][]corev1.Event {
		list := &corev1.EventList{}
		require.NoError(t, env.Client.List(t.Context(), list, client.InNamespace(namespace)))
		of := map[string][]corev1.Event{}
		for _, each := range list.Items {
			of[each.InvolvedObject.Name] = append(of[each.InvolvedObject.Name], each)
		}
		return of
	}
	require.Eventually(t, func() bool {
		recorder.Eventf(named("begins"), nil, corev1.EventTypeNormal, "Begun", "Reconcile", "the recording of Events has begun")
		return len(found()["begins"]) > 0
	}, time.Minute, 10*time.Millisecond)
	for i := range 100 {
		recorder.Eventf(named("restless"), nil, corev1.EventTypeNormal, fmt.Sprintf("Reason%d", i), "Reconcile", "it changed %d times", i)
	}
	recorder.Eventf(named("calm"), nil, corev1.EventTypeWarning, "DeploymentFailed", "Reconcile", "it %s", "fails")
	require.Eventually(t, func() bool { return len(found()["calm"]) == 1 }, time.Minute, 10*time.Millisecond)

	all := found()
	require.Less(t, len(all["restless"]), 30)
	calm := all["calm"][0]
	require.Equal(t, []string{"function-controller", "Warning", "DeploymentFailed", "it fails"},
		[]string{calm.Source.Component, calm.Type, calm.Reason, calm.Message})
}

func TestEventsOfNamespacesAreWrittenInTurn(t *testing.T) {
	t.Parallel()
	queue := newEventQueue()
	for i := range 2 * waitingEvents {
		queue.push(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile", Name: strconv.Itoa(i)}})
	}
	for i := range 3 {
		queue.push(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: strconv.Itoa(i)}})
	}
	var order []string
	for event, ok := queue.pop(); ok; event, ok = queue.pop() {
		order = append(order, event.Namespace)
	}
	require.Equal(t, []string{"hostile", "shop", "hostile", "shop", "hostile", "shop", "hostile"}, order[:7])
	require.Len(t, order, waitingEvents/2+3, "a namespace may use as many places as it leaves free")
	used, _ := queue.places.Stats()
	require.Zero(t, used)
}

func TestAnEventThatIsRepeatedIsCounted(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	namespace := env.Namespace(t)
	client, err := typedcorev1.NewForConfig(env.Config)
	require.NoError(t, err)
	queue := newEventQueue()
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		queue.write(ctx, client)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	broadcaster := eventrecord.NewBroadcaster()
	t.Cleanup(broadcaster.Shutdown)
	broadcaster.StartEventWatcher(queue.push)
	recorder := broadcaster.NewRecorder(env.Scheme, corev1.EventSource{Component: "function-controller"})
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "restless", UID: "1"}}
	for range 3 {
		recorder.Event(object, corev1.EventTypeWarning, "Failed", "again")
	}
	require.Eventually(t, func() bool {
		list, err := client.Events(namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return len(list.Items) == 1 && list.Items[0].Count == 3
	}, time.Minute, 10*time.Millisecond)
}
