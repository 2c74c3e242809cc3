package function

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
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

const kindNetworkPolicy = "NetworkPolicy"

// applyNetworkPolicy restricts the network of the pods before there are any. When it fails, nothing is started or
// changed: running pods keep their policy.
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

// liveNetworkPolicy returns nil when there is none, and an error when it is not the Function's.
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

const (
	removalInterval = 5 * time.Second
	// removalDenials bounds the attempts without the right to delete: the chart grants it in the release that disables
	// the policies, and RBAC takes a moment to apply.
	removalDenials = 6
	removalPage    = 500
)

// policyRemover deletes the NetworkPolicies of Functions after the installation has disabled them. It ends when there
// are none.
type policyRemover struct {
	reader client.Reader // bypasses the cache: nothing else reads NetworkPolicies then
	writer client.Writer
	log    logr.Logger
}

func newPolicyRemover(mgr ctrl.Manager) *policyRemover {
	return &policyRemover{reader: mgr.GetAPIReader(), writer: mgr.GetClient(), log: mgr.GetLogger().WithName("network-policies")}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *policyRemover) NeedLeaderElection() bool { return true }

// Start deletes until none is left or the right to delete is missing for good.
func (p *policyRemover) Start(ctx context.Context) error {
	denied := 0
	_ = wait.PollUntilContextCancel(ctx, removalInterval, true, func(ctx context.Context) (bool, error) {
		err := p.remove(ctx)
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsForbidden(err):
			denied++
			p.log.V(1).Info("not allowed to delete NetworkPolicies, which is expected where there never were any", "reason", err.Error())
			return denied == removalDenials, nil
		default:
			p.log.Error(err, "cannot delete the NetworkPolicies of Functions")
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
		p.log.Info("deleted the NetworkPolicies of Functions because they are disabled", "count", removed)
	}
	return nil
}

// isOfFunction reports whether the controller made a policy for a Function. The label alone does not prove it: users
// can set it.
func isOfFunction(policy metav1.Object) bool {
	owner := metav1.GetControllerOf(policy)
	return owner != nil && owner.Kind == resources.FunctionKind && owner.APIVersion == v1alpha2.GroupVersion.String() &&
		policy.GetName() == resources.NetworkPolicyName(owner.Name) && kube.IsApplied(policy)
}

// networkRules is Options.Network as a flag.
type networkRules struct{ rules **resources.NetworkRules }

// String implements pflag.Value.
func (n *networkRules) String() string {
	if n.rules == nil || *n.rules == nil {
		return ""
	}
	text, _ := json.Marshal(*n.rules) // every field can be encoded
	return string(text)
}

// Type implements pflag.Value.
func (n *networkRules) Type() string { return "json" }

// Set implements pflag.Value. An unknown field is an error, because a peer without it may match everyone.
func (n *networkRules) Set(text string) error {
	if text == "" {
		*n.rules = nil
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	read := &resources.NetworkRules{}
	if err := decoder.Decode(read); err != nil {
		return err
	}
	if err := checkNetworkRules(read); err != nil {
		return err
	}
	*n.rules = read
	return nil
}

// checkNetworkRules reports invalid rules at the start, before every Function fails because of them.
func checkNetworkRules(rules *resources.NetworkRules) error {
	problems := []error{
		checkOwnPods("callers", rules.Callers), checkOwnPods("publisher.to", rules.Publisher.To),
		checkPorts("publisher.ports", rules.Publisher.Ports), checkPorts("dnsPorts", rules.DNSPorts),
		checkPeers("from", rules.From), checkPeers("dnsTo", rules.DNSTo),
	}
	for i, rule := range rules.Egress {
		problems = append(problems, checkPeers(fmt.Sprintf("egress[%d].to", i), rule.To))
	}
	return errors.Join(problems...)
}

// checkOwnPods requires both a namespace selector and a pod selector: with pod labels alone every tenant could create
// such a pod.
func checkOwnPods(place string, peers []networkingv1.NetworkPolicyPeer) error {
	if len(peers) == 0 {
		return fmt.Errorf("%s: must name the installation's pods", place)
	}
	for i, peer := range peers {
		if isEmpty(peer.NamespaceSelector) || isEmpty(peer.PodSelector) {
			return fmt.Errorf("%s[%d]: needs a namespaceSelector and a podSelector that select something", place, i)
		}
	}
	return checkPeers(place, peers)
}

func isEmpty(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

func checkPorts(place string, ports []int32) error {
	if len(ports) == 0 {
		return fmt.Errorf("%s: must name at least one port", place)
	}
	for _, port := range ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%s: %d is not a port", place, port)
		}
	}
	return nil
}

func checkPeers(place string, peers []networkingv1.NetworkPolicyPeer) error {
	var problems []error
	for i, peer := range peers {
		if err := checkPeer(peer); err != nil {
			problems = append(problems, fmt.Errorf("%s[%d]: %w", place, i, err))
		}
	}
	return errors.Join(problems...)
}

func checkPeer(peer networkingv1.NetworkPolicyPeer) error {
	selects := peer.NamespaceSelector != nil || peer.PodSelector != nil
	if selects == (peer.IPBlock != nil) {
		return errors.New("needs either an ipBlock or selectors")
	}
	if peer.IPBlock != nil {
		if _, err := netip.ParsePrefix(peer.IPBlock.CIDR); err != nil {
			return fmt.Errorf("ipBlock.cidr %q is not a network such as 10.0.0.0/8", peer.IPBlock.CIDR)
		}
		return nil
	}
	_, namespaces := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
	_, pods := metav1.LabelSelectorAsSelector(peer.PodSelector)
	return errors.Join(namespaces, pods)
}
