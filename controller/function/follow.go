package function

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// difference is how the pods that a Function has differ from those that it should have.
type difference int

const (
	none       difference = iota
	bySpec                // the Function has changed
	bySettings            // the installation has, and nothing else
)

// differs compares by the hashes that the Deployment carries. One of an earlier version of the controller has none of its own template.
func differs(live *appsv1.Deployment, wanted *appsv1ac.DeploymentApplyConfiguration) difference {
	switch {
	case live.Spec.Template.Annotations[resources.AnnotationTemplate] == wanted.Spec.Template.Annotations[resources.AnnotationTemplate]:
		return none
	case live.Annotations[resources.AnnotationOwn] == wanted.Annotations[resources.AnnotationOwn]:
		return bySettings
	default:
		return bySpec
	}
}

// mayFollow reports whether the Deployment may become what is wanted now. A change of the settings alone concerns many Functions at a
// time: those that are awake follow a few at a time, and those that are asleep, which have no pod to replace, at once.
func (r *Reconciler) mayFollow(s *scope, wanted *appsv1ac.DeploymentApplyConfiguration) bool {
	key := client.ObjectKeyFromObject(s.fn)
	switch {
	case s.deployment == nil || differs(s.deployment, wanted) != bySettings:
		return true
	case !s.settled:
		return false
	case ptr.Deref(s.deployment.Spec.Replicas, 1) == 0 && s.deployment.Status.Replicas == 0:
		return true
	default:
		return r.rollouts.enter(key)
	}
}

// followed gives up the slot when the pods of the present settings run, or when there are none to wait for.
func (r *Reconciler) followed(s *scope) {
	if s.err != nil || s.postponed || s.deployment == nil || s.change != unchanged {
		return
	}
	if rolledOut(s.deployment) && s.deployment.Status.ReadyReplicas >= ptr.Deref(s.deployment.Spec.Replicas, 1) {
		r.rollouts.leave(client.ObjectKeyFromObject(s.fn))
	}
}

// rolledOut reports whether no pod has another template than the Deployment.
func rolledOut(deployment *appsv1.Deployment) bool {
	status := &deployment.Status
	return status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas >= status.Replicas && status.UnavailableReplicas == 0
}

// stillCalled are addresses of earlier settings that pods may have until all have followed.
func stillCalled(s *scope) ([]string, error) {
	if len(s.former) == 0 || s.deployment == nil {
		return nil, nil
	}
	if s.held() || !rolledOut(s.deployment) {
		return s.former, nil
	}
	wanted, err := wantedDeployment(s)
	if err != nil {
		return nil, err
	}
	if differs(s.deployment, wanted) == none {
		return nil, nil
	}
	return s.former, nil
}

// followers of the settings are all Functions.
func settingsFollowers(changed <-chan struct{}, reader client.Reader) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-changed:
					enqueueAll(ctx, reader, queue)
				}
			}
		}()
		return nil
	})
}

func enqueueAll(ctx context.Context, reader client.Reader, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	functions := &v1alpha2.FunctionList{}
	if err := reader.List(ctx, functions, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list functions that follow changed settings")
		return
	}
	for i := range functions.Items {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&functions.Items[i])})
	}
}
