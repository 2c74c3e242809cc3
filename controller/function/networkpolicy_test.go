package function

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/settings"
)

// boundsFunctions switches NetworkPolicies on.
func boundsFunctions(o *Options) {
	if err := (&networkRules{&o.Network}).Set(someRules); err != nil {
		panic(err)
	}
}

func (w *fixture) networkPolicy(fn *v1alpha2.Function) *networkingv1.NetworkPolicy {
	w.t.Helper()
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "rouse-" + fn.Name}}
	await(w, policy, "the NetworkPolicy exists", func(*networkingv1.NetworkPolicy) bool { return true })
	return policy
}

func TestNetworkPoliciesOnARealAPIServer(t *testing.T) {
	runManager(t, simultaneous, boundsFunctions)
	for name, test := range map[string]func(*fixture){
		"a Function has a NetworkPolicy of its own":           boundsItsPods,
		"a NetworkPolicy that others widen is repaired":       repairsItsNetworkPolicy,
		"a Function without its NetworkPolicy is not started": startsNothingUnbounded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newFixture(t))
		})
	}
}

func boundsItsPods(w *fixture) {
	fn := w.create(func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"team": "sales"} })
	deployment, policy := w.deployment(fn), w.networkPolicy(fn)
	require.True(w.t, metav1.IsControlledBy(policy, fn))
	require.False(w.t, deployment.CreationTimestamp.Before(&policy.CreationTimestamp), "no pod is there before it")
	require.Equal(w.t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, policy.Spec.PolicyTypes)
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	require.NoError(w.t, err)
	own, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	require.NoError(w.t, err)
	require.Equal(w.t, own.String(), selector.String())
	require.Len(w.t, policy.Spec.Ingress, 1)
	require.Len(w.t, policy.Spec.Egress, 3, "DNS, the eventbridge, and the publisher at another address")
}

func repairsItsNetworkPolicy(w *fixture) {
	fn := w.create()
	policy := w.networkPolicy(fn)
	original := policy.DeepCopy()
	restored := func(p *networkingv1.NetworkPolicy) bool {
		return metav1.IsControlledBy(p, fn) && p.Labels[v1alpha2.LabelUUID] == string(fn.UID) &&
			len(p.Spec.Ingress[0].From) == 1 && len(p.Spec.Egress) == len(original.Spec.Egress) && len(p.Spec.PodSelector.MatchLabels) == 4
	}
	for what, widen := range map[string]func(*networkingv1.NetworkPolicy){
		"everyone may call": func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].From = nil },
		"all may be called": func(p *networkingv1.NetworkPolicy) {
			p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{})
		},
		"for no pods":        func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector.MatchLabels["none"] = "such" },
		"without its labels": func(p *networkingv1.NetworkPolicy) { delete(p.Labels, v1alpha2.LabelManagedBy) },
		"without an owner":   func(p *networkingv1.NetworkPolicy) { p.OwnerReferences = nil },
	} {
		update(w, policy, widen)
		await(w, policy, what, func(p *networkingv1.NetworkPolicy) bool {
			return restored(p) && p.Labels[v1alpha2.LabelManagedBy] == v1alpha2.ManagedBy
		})
	}
	everyone := networkingv1ac.NetworkPolicy(policy.Name, w.namespace).WithSpec(networkingv1ac.NetworkPolicySpec().
		WithIngress(networkingv1ac.NetworkPolicyIngressRule(), networkingv1ac.NetworkPolicyIngressRule()))
	require.NoError(w.t, w.Apply(w.t.Context(), everyone, client.FieldOwner("tenant"), client.ForceOwnership))
	await(w, policy, "by server-side apply", restored)
	require.NoError(w.t, w.Delete(w.t.Context(), policy))
	await(w, policy, "deleted", func(p *networkingv1.NetworkPolicy) bool { return p.UID != original.UID && restored(p) })
}

func startsNothingUnbounded(w *fixture) {
	fn := newFunction()
	foreign := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "rouse-" + fn.Name},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}},
	}
	require.NoError(w.t, w.Create(w.t.Context(), foreign, client.FieldOwner("tenant")))
	fn = w.create()
	condition := w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionFalse, v1alpha2.ReasonNetworkPolicyFailed)
	require.Contains(w.t, condition.Message, "NetworkPolicy rouse-price already exists and belongs to no controller (it was written by tenant)")
	require.Contains(w.t, condition.Message, "Delete it")
	err := w.Get(w.t.Context(), client.ObjectKeyFromObject(fn), &appsv1.Deployment{})
	require.True(w.t, apierrors.IsNotFound(err), "%v", err)

	require.NoError(w.t, w.Delete(w.t.Context(), foreign))
	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"tried": "again"} })
	w.deployment(fn)
	require.True(w.t, metav1.IsControlledBy(w.networkPolicy(fn), fn))
}

func TestDisabledNetworkPoliciesAreDeleted(t *testing.T) {
	var w *fixture
	var policy, users *networkingv1.NetworkPolicy
	t.Run("on", func(t *testing.T) {
		runManager(t, simultaneous, boundsFunctions)
		w = newFixture(t)
		policy = w.networkPolicy(w.create())
		users = policy.DeepCopy() // with the labels and the owner of a Function's
		users.ObjectMeta = metav1.ObjectMeta{
			Namespace: w.namespace, Name: "mine", Labels: policy.Labels, OwnerReferences: policy.OwnerReferences,
		}
		require.NoError(t, w.Create(t.Context(), users))
	})
	t.Run("off", func(t *testing.T) {
		w.t = t
		runManager(t, simultaneous)
		w.awaitGone(policy, string(policy.UID))
		require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(users), users), "a user's policy must stay")
	})
}

func TestPodsBeforeTheirRolloutReachFormerAddresses(t *testing.T) {
	const before, after = "10.0.0.8/32", "10.0.0.9/32"
	options := testOptions()
	boundsFunctions(&options)
	options.TraceCollectorEndpoint = "http://10.0.0.8:4318"
	live := NewLive(options, false)
	live.Apply(&settings.Settings{MaxRollouts: 1})
	runManagerWith(t, simultaneous, live, func(o *Options) { *o = options })
	var places []*fixture
	var deployments []*appsv1.Deployment
	var policies []*networkingv1.NetworkPolicy
	for range 2 {
		w := newFixture(t)
		fn := w.create()
		deployment := w.deployment(fn)
		w.rollOut(deployment)
		places, deployments, policies = append(places, w), append(deployments, deployment), append(policies, w.networkPolicy(fn))
		require.Equal(t, []string{before}, reached(policies[len(policies)-1]))
	}
	awaitReached := func(i int, what string, want ...string) {
		t.Helper()
		await(places[i], policies[i], what, func(p *networkingv1.NetworkPolicy) bool { return slices.Equal(reached(p), want) })
	}

	live.Apply(&settings.Settings{MaxRollouts: 1, TraceCollector: new("http://10.0.0.9:4318")})
	awaitReached(0, "one goes first, and one waits for its turn", after, before)
	awaitReached(1, "one goes first, and one waits for its turn", after, before)
	first := 0
	replaces := func(d *appsv1.Deployment) bool { return d.Status.ObservedGeneration < d.Generation }
	require.Eventually(t, func() bool {
		for i := range deployments {
			require.NoError(t, places[i].Get(t.Context(), client.ObjectKeyFromObject(deployments[i]), deployments[i]))
			if replaces(deployments[i]) {
				first = i
				return true
			}
		}
		return false
	}, timeout, tick)
	for _, i := range []int{first, 1 - first} {
		await(places[i], deployments[i], "its pods are replaced", replaces)
		awaitReached(i, "an old pod exists", after, before)
		places[i].rollOut(deployments[i])
		awaitReached(i, "all have followed", after)
	}
}

// reached returns the addresses that pods may call.
func reached(policy *networkingv1.NetworkPolicy) (addresses []string) {
	for i := range policy.Spec.Egress {
		for _, peer := range policy.Spec.Egress[i].To {
			if peer.IPBlock != nil {
				addresses = append(addresses, peer.IPBlock.CIDR)
			}
		}
	}
	return addresses
}

func TestWithoutItsNetworkPolicyAFunctionIsNotChanged(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"forbidden": apierrors.NewForbidden(schema.GroupResource{}, "rouse-price", errors.New("no right")),
		"refused":   apierrors.NewInvalid(schema.GroupKind{Kind: "NetworkPolicy"}, "rouse-price", nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, false, newFunction())
			options := testOptions()
			boundsFunctions(&options)
			b.settings = NewLive(options, false)
			b.failing["NetworkPolicy"] = err
			_, failed := b.reconcile()
			require.Error(t, failed)
			conditions := b.function().Status.Conditions
			require.Equal(t, v1alpha2.ReasonNetworkPolicyFailed, conditions[len(conditions)-1].Reason)
			require.Contains(t, conditions[len(conditions)-1].Message, "NetworkPolicy rouse-price create failed: ")
			require.Error(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(b.function()), &appsv1.Deployment{}))
			require.Equal(t, 1, b.applies, "only the policy may be applied")
		})
	}
}

const (
	somePods  = `[{"namespaceSelector":{"matchLabels":{"a":"b"}},"podSelector":{"matchLabels":{"c":"d"}}}]`
	someRules = `{"callers":` + somePods + `,"publisher":{"address":"http://bridge.rouse-system/publish","to":` + somePods +
		`,"ports":[8080]},"dnsPorts":[53]}`
)

func TestNetworkPolicyFlagIsValidated(t *testing.T) {
	t.Parallel()
	bound := func() (*Options, *pflag.FlagSet) {
		options, set := testOptions(), pflag.NewFlagSet("controller", pflag.ContinueOnError)
		flags.Bind(set, &options)
		return &options, set
	}
	options, set := bound()
	require.Nil(t, options.settings().Network, "they are off")
	require.NoError(t, set.Set("function-network-policy", someRules))
	require.Equal(t, []int32{53}, options.settings().Network.DNSPorts)
	again, set := bound()
	require.NoError(t, set.Set("function-network-policy", (&networkRules{&options.Network}).String()))
	require.Equal(t, options.Network, again.Network)
	require.NoError(t, set.Set("function-network-policy", ""))
	require.Nil(t, again.Network)

	for name, tc := range map[string]struct{ text, want string }{
		"malformed JSON":    {`from everyone`, "invalid character"},
		"a misspelt member": {`{"form":[]}`, `unknown field "form"`},
		"a misspelt peer, which would match everyone": {`{"from":[{"podselctor":{}}]}`, `unknown field "podselctor"`},
		"no callers":                    {`{}`, "callers: must name the installation's pods"},
		"no port of DNS":                {`{}`, "dnsPorts: must name at least one port"},
		"callers by their pods' labels": {`{"callers":[{"podSelector":{"matchLabels":{"c":"d"}}}]}`, "callers[0]: needs a namespaceSelector and a podSelector"},
		"all pods of a namespace":       {`{"callers":[{"namespaceSelector":{"matchLabels":{"a":"b"}},"podSelector":{}}]}`, "callers[0]: needs"},
		"an invalid port":               {`{"dnsPorts":[65536]}`, "dnsPorts: 65536 is not a port"},
		"an empty peer":                 {`{"from":[{}]}`, "from[0]: needs either an ipBlock or selectors"},
		"an invalid network":            {`{"dnsTo":[{"ipBlock":{"cidr":"10.0.0.1"}}]}`, `dnsTo[0]: ipBlock.cidr "10.0.0.1" is not a network`},
		"an invalid selector":           {`{"egress":[{"to":[{"podSelector":{"matchExpressions":[{"key":"a","operator":"Is"}]}}]}]}`, "egress[0].to[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, set := bound()
			require.ErrorContains(t, set.Set("function-network-policy", tc.text), tc.want)
		})
	}
}

func TestNetworkPolicyRemovalRetriesWithoutPermissionAndGivesUp(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "networkpolicies"}, "", errors.New("no right"))
	unavailable := apierrors.NewServiceUnavailable("later")
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		answers []error // of the lists; the last one is repeated
		lists   int
	}{
		"there are none":                            {[]error{nil}, 1},
		"permission is granted later":               {[]error{forbidden, forbidden, nil}, 3},
		"permission is never granted":               {[]error{forbidden}, removalDenials},
		"the API server is temporarily unavailable": {[]error{unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, nil}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := 0
			c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					answer := tc.answers[min(lists, len(tc.answers)-1)]
					lists++
					if answer != nil {
						return answer
					}
					return inner.List(ctx, list, options...)
				},
			}).Build()
			synctest.Test(t, func(t *testing.T) {
				require.NoError(t, (&policyRemover{reader: c, writer: c, log: logr.Discard()}).Start(t.Context()))
			})
			require.Equal(t, tc.lists, lists)
		})
	}
}
