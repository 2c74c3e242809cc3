package standin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

const node, snake = v1alpha2.RuntimeNodeJS22, v1alpha2.RuntimePython312

type counts = map[v1alpha2.Runtime]int

func TestANamespaceHasNoMoreStandInsThanTheInstallationAllows(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wanted, bounded counts
		limited         bool
	}{
		"as many as wanted":             {counts{node: 2, snake: 1}, counts{node: 2, snake: 1}, false},
		"one too many":                  {counts{node: 2, snake: 2}, counts{node: 2, snake: 1}, true},
		"all of the first runtime":      {counts{node: 9, snake: 1}, counts{node: 3, snake: 0}, true},
		"none":                          {counts{}, counts{}, false},
		"a huge number is only limited": {counts{node: 65535}, counts{node: 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bounded, limited := bound(tc.wanted, 3)
			require.Equal(t, tc.bounded, bounded)
			require.Equal(t, tc.limited, limited)
		})
	}
}

func standIn(name, state string, changes ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: resources.StandInLabels(state, node), Annotations: map[string]string{resources.AnnotationTemplate: "current"},
	}}
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

func TestThePlanReplacesWhatIsMissingAndDeletesWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	gone := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	ended := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
	old := func(pod *corev1.Pod) { pod.Annotations[resources.AnnotationTemplate] = "old" }
	const waiting, serving = v1alpha2.StandInWaits, v1alpha2.StandInServes
	for name, tc := range map[string]struct {
		wanted, unseen int
		pods           []corev1.Pod
		is             map[string]membership
		missing        int
		surplus        []string
	}{
		"an empty namespace":                                 {wanted: 2, missing: 2},
		"enough":                                             {wanted: 1, pods: []corev1.Pod{standIn("a", waiting)}},
		"one that the cache does not show yet":               {wanted: 1, unseen: 1},
		"one too many":                                       {wanted: 1, pods: []corev1.Pod{standIn("a", waiting), standIn("b", waiting)}, surplus: []string{"b"}},
		"none are wanted any more":                           {pods: []corev1.Pod{standIn("a", waiting)}, surplus: []string{"a"}},
		"one is being deleted":                               {wanted: 1, pods: []corev1.Pod{standIn("a", waiting, gone)}, missing: 1},
		"one has ended":                                      {wanted: 1, pods: []corev1.Pod{standIn("a", waiting, ended)}, missing: 1, surplus: []string{"a"}},
		"one has an old template":                            {wanted: 1, pods: []corev1.Pod{standIn("a", waiting, old)}, missing: 1, surplus: []string{"a"}},
		"another process made one":                           {wanted: 1, pods: []corev1.Pod{standIn("a", waiting)}, is: map[string]membership{"a": foreign}, missing: 1, surplus: []string{"a"}},
		"one that serves has no successor yet":               {wanted: 1, pods: []corev1.Pod{standIn("a", serving, old)}},
		"one that is taken has no successor yet":             {wanted: 1, pods: []corev1.Pod{standIn("a", waiting)}, is: map[string]membership{"a": taken}},
		"one that is taken stays when none is wanted":        {pods: []corev1.Pod{standIn("a", waiting)}, is: map[string]membership{"a": taken}},
		"one that serves has a successor when it is deleted": {wanted: 1, pods: []corev1.Pod{standIn("a", serving, gone)}, missing: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := func(pod *corev1.Pod) membership {
				if state, ok := tc.is[pod.Name]; ok {
					return state
				}
				return waits
			}
			missing, surplus := plan(counts{node: tc.wanted}, counts{node: tc.unseen}, map[v1alpha2.Runtime]string{node: "current"}, tc.pods, is)
			require.Equal(t, tc.missing, missing[node])
			var names []string
			for _, pod := range surplus {
				names = append(names, pod.Name)
			}
			require.Equal(t, tc.surplus, names)
		})
	}
}

func TestAFunctionWhosePodsHaveOtherNetworkPoliciesGetsNoStandIn(t *testing.T) {
	t.Parallel()
	fn := &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Name: "price", UID: "1"}, Spec: v1alpha2.FunctionSpec{Runtime: node}}
	policy := func(name string, selector metav1.LabelSelector) networkingv1.NetworkPolicy {
		return networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.NetworkPolicySpec{PodSelector: selector},
		}
	}
	named := func(label, value string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{label: value}}
	}
	own := policy("rouse-price", named(v1alpha2.LabelFunctionName, "price"))
	own.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(fn, v1alpha2.GroupVersion.WithKind("Function"))}
	for name, tc := range map[string]struct {
		policy networkingv1.NetworkPolicy
		refuse bool
	}{
		"all pods":                        {policy("all", metav1.LabelSelector{}), false},
		"all pods of Rouse":               {policy("ours", named(v1alpha2.LabelManagedBy, v1alpha2.ManagedBy)), false},
		"another Function":                {policy("other", named(v1alpha2.LabelFunctionName, "tax")), false},
		"the Function":                    {policy("mine", named(v1alpha2.LabelFunctionName, "price")), true},
		"the Function by its app's name":  {policy("mine", named(v1alpha2.LabelAppName, "price")), true},
		"stand-ins only":                  {policy("mine", named(v1alpha2.LabelStandIn, v1alpha2.StandInWaits)), true},
		"the Function, made by Rouse":     {own, false},
		"a user's of Rouse's name":        {policy("rouse-price", named(v1alpha2.LabelFunctionName, "price")), true},
		"stand-ins, made by Rouse":        {policy(resources.StandInPolicy, named(v1alpha2.LabelStandIn, v1alpha2.StandInWaits)), false},
		"a selector that cannot be read":  {policy("odd", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}), true},
		"pods without the Function label": {policy("rest", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha2.LabelFunctionName, Operator: metav1.LabelSelectorOpDoesNotExist}}}), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := samePolicies([]networkingv1.NetworkPolicy{tc.policy}, fn)
			if tc.refuse {
				require.ErrorContains(t, err, "NetworkPolicy "+tc.policy.Name)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestAKeyIsGivenOnceAndOnlyForThePodThatWasCreated(t *testing.T) {
	t.Parallel()
	p, now := newPool(), time.Unix(100, 0)
	pod := standIn("a", v1alpha2.StandInWaits, func(pod *corev1.Pod) { pod.Namespace, pod.UID = "shop", "1" })
	require.Equal(t, foreign, p.of(&pod))
	digest := p.add(client.ObjectKeyFromObject(&pod), node, now)
	require.Len(t, digest, 64)
	p.created(client.ObjectKeyFromObject(&pod), "1")

	impostor := pod
	impostor.UID = "2"
	_, ok := p.take(&impostor)
	require.False(t, ok, "another pod of its name")
	key, ok := p.take(&pod)
	require.True(t, ok)
	require.NotContains(t, digest, key)
	_, ok = p.take(&pod)
	require.False(t, ok, "twice")
	require.Equal(t, taken, p.of(&pod))
}

func TestThePoolForgetsWhatTheCacheDoesNotShowAnyMore(t *testing.T) {
	t.Parallel()
	p, now := newPool(), time.Unix(100, 0)
	pod := standIn("a", v1alpha2.StandInWaits, func(pod *corev1.Pod) { pod.Namespace = "shop" })
	key := client.ObjectKeyFromObject(&pod)
	p.add(key, node, now)
	require.Equal(t, counts{node: 1}, p.compare("shop", nil, now), "it is not shown yet")
	require.Empty(t, p.compare("shop", []corev1.Pod{pod}, now))
	require.Empty(t, p.compare("other", nil, now))
	require.True(t, p.any("shop"))
	require.Empty(t, p.compare("shop", nil, now), "it is gone")
	require.False(t, p.any("shop"))

	p.add(key, node, now)
	require.Empty(t, p.compare("shop", nil, now.Add(appears+time.Second)), "it was deleted before the cache showed it")
	require.False(t, p.any("shop"))
	p.add(key, node, now)
	served := standIn("a", v1alpha2.StandInServes)
	require.Empty(t, p.compare("shop", []corev1.Pod{served}, now))
	require.False(t, p.any("shop"), "it serves")
}
