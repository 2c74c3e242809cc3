package function

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	removalInterval = 5 * time.Second
	// removalDenials are how often the right may be missing: the chart gives it for
	// the release that switches the policies off, and RBAC takes a moment.
	removalDenials = 6
	removalPage    = 500
)

// policyRemover deletes the NetworkPolicies that Functions have of a time when the
// installation wanted them. It ends when there are none.
type policyRemover struct {
	reader client.Reader // past the cache: nothing else here reads NetworkPolicies then
	writer client.Writer
	log    logr.Logger
}

func newPolicyRemover(mgr ctrl.Manager) *policyRemover {
	return &policyRemover{reader: mgr.GetAPIReader(), writer: mgr.GetClient(), log: mgr.GetLogger().WithName("network-policies")}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *policyRemover) NeedLeaderElection() bool { return true }

// Start deletes until all are gone or it may not.
func (p *policyRemover) Start(ctx context.Context) error {
	denied := 0
	_ = wait.PollUntilContextCancel(ctx, removalInterval, true, func(ctx context.Context) (bool, error) {
		err := p.remove(ctx)
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsForbidden(err):
			denied++
			p.log.V(1).Info("there is no right to delete NetworkPolicies, as where there never were any", "reason", err.Error())
			return denied == removalDenials, nil
		default:
			p.log.Error(err, "NetworkPolicies of Functions are not deleted")
			return false, nil
		}
	})
	return nil // else ctx has ended
}

func (p *policyRemover) remove(ctx context.Context) error {
	removed, list := 0, &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind(kindNetworkPolicy + "List"))
	for {
		err := p.reader.List(ctx, list, client.MatchingLabels{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy},
			client.Limit(removalPage), client.Continue(list.Continue))
		if err != nil {
			return fmt.Errorf("list the NetworkPolicies of Functions: %w", err)
		}
		for i := range list.Items {
			policy := &list.Items[i]
			if !isOfFunction(policy) {
				continue
			}
			err := p.writer.Delete(ctx, policy, client.Preconditions{UID: &policy.UID})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
			}
			removed++
		}
		if list.Continue == "" {
			break
		}
	}
	if removed > 0 {
		p.log.Info("NetworkPolicies of Functions deleted, as they are off", "count", removed)
	}
	return nil
}

// isOfFunction reports whether the controller has made a policy for a Function.
// Its label alone users write as well.
func isOfFunction(policy metav1.Object) bool {
	owner := metav1.GetControllerOf(policy)
	return owner != nil && owner.Kind == resources.FunctionKind && owner.APIVersion == v1alpha2.GroupVersion.String() &&
		policy.GetName() == resources.NetworkPolicyName(owner.Name) && kube.IsApplied(policy)
}
