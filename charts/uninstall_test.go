package charts

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/controller/subscription"
	"github.com/rouse-run/rouse/internal/kube"
)

const uninstallRest = "rouse-uninstall-rest"

func TestWhatTheControllerLeavesIsRemovedAfterIt(t *testing.T) {
	t.Parallel()
	deletesSlices := rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "delete"}}
	takesFinalizers := rbacv1.PolicyRule{
		APIGroups: []string{eventingv1alpha2.GroupVersion.Group}, Resources: []string{"subscriptions"}, Verbs: []string{"list", "patch"},
	}
	for name, tc := range map[string]struct {
		set   values
		args  []string
		rules []rbacv1.PolicyRule
	}{
		"by default":                                {nil, []string{"--slices", "--finalizers"}, []rbacv1.PolicyRule{deletesSlices, takesFinalizers}},
		"without gateways":                          {values{"gateway.enabled=false"}, []string{"--finalizers"}, []rbacv1.PolicyRule{takesFinalizers}},
		"where Subscriptions go before":             {values{"crds.keep=false"}, []string{"--slices"}, []rbacv1.PolicyRule{deletesSlices}},
		"where another one may serve Subscriptions": {values{"crds.enabled=false"}, []string{"--slices"}, []rbacv1.PolicyRule{deletesSlices}},
		"with FIPS": {
			values{"fips.mode=on", "crds.keep=false"}, []string{"--slices", "--fips-mode=on"}, []rbacv1.PolicyRule{deletesSlices},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := render(t, tc.set)
			job := named[*batchv1.Job](t, all, uninstallRest)
			require.Equal(t, []string{"/controller", "uninstall"}, job.Spec.Template.Spec.Containers[0].Command)
			require.Equal(t, tc.args, job.Spec.Template.Spec.Containers[0].Args)
			require.Less(t, ptr.Deref(job.Spec.ActiveDeadlineSeconds, 0), int64(300), "Helm waits five minutes for a hook")
			require.Equal(t, tc.rules, named[*rbacv1.ClusterRole](t, all, uninstallRest).Rules)
			hooks := 0
			for _, object := range all {
				if object.GetName() == uninstallRest {
					require.Equal(t, "post-delete", object.GetAnnotations()["helm.sh/hook"], "%T", object)
					hooks++
				}
			}
			require.Equal(t, 5, hooks, "account, role, binding, NetworkPolicy and Job")
		})
	}
}

func TestNothingIsRemovedAfterAControllerThatLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, object := range render(t, values{"gateway.enabled=false", "crds.keep=false"}) {
		require.NotEqual(t, uninstallRest, object.GetName(), "%T", object)
	}
}

// The hook runs here with exactly the permissions of the chart.
func TestKeptSubscriptionsCanBeDeletedAfterAnUninstall(t *testing.T) {
	env := cluster.Environment(t)
	all := render(t, nil)
	for _, object := range all {
		if object.GetName() != uninstallRest {
			continue
		}
		switch object.(type) {
		case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
			provide(t, env.Client, object)
		}
	}
	sub := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "orders", Finalizers: []string{eventingv1alpha2.Finalizer, "example.com/other"}},
		Spec:       eventingv1alpha2.SubscriptionSpec{Sink: "http://price.shop.svc.cluster.local", Source: "shop", Types: []string{"order.received.v1"}},
	}
	require.NoError(t, env.Client.Create(t.Context(), sub))
	account := rest.CopyConfig(env.Config)
	account.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + uninstallRest,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	hook, err := client.New(account, client.Options{Scheme: scheme})
	require.NoError(t, err)
	require.NoError(t, subscription.Leave(t.Context(), hook))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
	require.Equal(t, []string{"example.com/other"}, sub.Finalizers, "others' finalizers are theirs")
	sub.Finalizers = nil
	require.NoError(t, env.Client.Update(t.Context(), sub))
	require.NoError(t, env.Client.Delete(t.Context(), sub))
}
