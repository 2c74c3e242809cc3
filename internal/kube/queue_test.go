package kube

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace string, number int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: strconv.Itoa(number)}}
}

// startQueue makes the queue that controllers get.
func startQueue(t *testing.T) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	options := inTurn(controller.Options{})
	queue := options.NewQueue("", options.RateLimiter)
	t.Cleanup(queue.ShutDown)
	return queue
}

func TestWorkersTakeObjectsOfNamespacesInTurn(t *testing.T) {
	t.Parallel()
	queue := startQueue(t)
	for i := range 1000 {
		queue.Add(request("hostile", i))
	}
	for i := range 2 {
		queue.Add(request("shop", i))
		queue.Add(request("shop", i)) // keeps its place
	}
	require.Equal(t, 1002, queue.Len())
	var taken []reconcile.Request
	for range 5 {
		next, _ := queue.Get()
		taken = append(taken, next)
		queue.Done(next)
	}
	require.Equal(t, []reconcile.Request{
		request("hostile", 0), request("shop", 0), request("hostile", 1), request("shop", 1), request("hostile", 2),
	}, taken)
}

func TestAnObjectThatComesAgainWhileAWorkerHasItIsTakenAgain(t *testing.T) {
	t.Parallel()
	queue := startQueue(t)
	queue.Add(request("shop", 1))
	first, _ := queue.Get()
	queue.Add(request("shop", 1))
	require.Zero(t, queue.Len(), "one worker at a time has it")
	queue.Done(first)
	second, _ := queue.Get()
	require.Equal(t, first, second)
	queue.Done(second)
}

func TestFailuresOfOneNamespaceDelayNoRetryOfAnother(t *testing.T) {
	t.Parallel()
	limiter := inTurn(controller.Options{}).RateLimiter
	for i := range 2000 {
		limiter.When(request("hostile", i))
	}
	require.Equal(t, firstRetry, limiter.When(request("shop", 1)))
	for range 30 {
		limiter.When(request("shop", 1))
	}
	require.Equal(t, lastRetry, limiter.When(request("shop", 1)))
	own := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Minute, time.Hour)
	require.Equal(t, time.Minute, inTurn(controller.Options{RateLimiter: own}).RateLimiter.When(request("shop", 2)))
}
