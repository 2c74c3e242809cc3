package kube

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestChangesThatSettleAreOneRequestAfterThePauseAndDeletionsOneAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := newQueue("settled", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pricing"}}
		settled := Settled(&handler.EnqueueRequestForObject{}, time.Second)

		settled.Delete(t.Context(), event.DeleteEvent{Object: deployment}, queue)
		request, _ := queue.Get()
		queue.Done(request)
		require.Equal(t, "pricing", request.Name)

		settled.Create(t.Context(), event.CreateEvent{Object: deployment}, queue)
		for range 5 {
			settled.Update(t.Context(), event.UpdateEvent{ObjectOld: deployment, ObjectNew: deployment}, queue)
		}
		synctest.Wait()
		require.Zero(t, queue.Len(), "before the pause is over")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, queue.Len())
	})
}
