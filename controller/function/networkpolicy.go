package function

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

const kindNetworkPolicy = "NetworkPolicy"

// applyNetworkPolicy bounds the network of the pods, before there are any. When it
// cannot be, nothing is run or changed: what runs keeps the policy that it has.
func (r *Reconciler) applyNetworkPolicy(ctx context.Context, s *scope) error {
	if s.settings.Network == nil {
		return nil
	}
	former, err := stillCalled(s)
	if err != nil {
		return err
	}
	config, err := resources.NetworkPolicy(s.fn, s.settings, former...)
	if err != nil {
		return err
	}
	desired, err := kube.ToUnstructured(config)
	if err != nil {
		return err
	}
	live, err := r.liveNetworkPolicy(ctx, s.fn)
	if err != nil {
		return err
	}
	if _, err := r.applier.Apply(ctx, desired, live, wholeSpec); err != nil {
		return explain(err, v1alpha2.ConditionRunning, v1alpha2.ReasonNetworkPolicyFailed,
			fmt.Sprintf("NetworkPolicy %s %s failed: %v", desired.GetName(), verb(live == nil), err))
	}
	return nil
}

// liveNetworkPolicy is nil when there is none, and an error when it is not the
// Function's.
func (r *Reconciler) liveNetworkPolicy(ctx context.Context, fn *v1alpha2.Function) (metav1.Object, error) {
	key, found := networkPolicyOf(client.ObjectKeyFromObject(fn)), networkPolicyMetadata()
	err := r.client.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for NetworkPolicy %q: %w", key, err)
	}
	err = kube.CheckOwner(found, kindNetworkPolicy, fn, v1alpha2.GroupVersion.WithKind(resources.FunctionKind).GroupKind())
	if _, foreign := errors.AsType[*kube.ForeignError](err); foreign && !isOrphan(found, fn) {
		return nil, kube.Waiting(&failure{
			condition: v1alpha2.ConditionRunning, reason: v1alpha2.ReasonNetworkPolicyFailed, message: err.Error(), err: err,
		}, foreignDelay)
	}
	if _, predecessor := errors.AsType[*kube.PredecessorError](err); predecessor {
		return nil, kube.Waiting(err, predecessorDelay)
	}
	return found, nil
}

func networkPolicyOf(fn client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: fn.Namespace, Name: resources.NetworkPolicyName(fn.Name)}
}

func networkPolicyMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind(kindNetworkPolicy))
	return object
}
