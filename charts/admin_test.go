package charts

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func TestTheAdminAPIHasATokenAPortAndAService(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set    values
		secret string
		makes  bool
	}{
		"as it comes":         {nil, "rouse-eventbridge-admin", true},
		"a Secret of the own": {values{"eventbridge.admin.secret=mine"}, "mine", false},
		"beside NATS's users": {values{"nats.users.enabled=true"}, "rouse-eventbridge-admin", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := render(t, tc.set)
			pod := named[*appsv1.Deployment](t, all, "rouse-eventbridge").Spec.Template.Spec
			container := pod.Containers[0]
			require.Subset(t, container.Args, []string{"--admin-address=:9091", "--admin-token-file=/etc/rouse/admin/token"})
			mount := container.VolumeMounts[slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.MountPath == "/etc/rouse/admin"
			})]
			volume := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })]
			require.Equal(t, tc.secret, volume.Secret.SecretName)
			require.Equal(t, []corev1.KeyToPath{{Key: "token", Path: "token"}}, volume.Secret.Items)

			service := named[*corev1.Service](t, all, "rouse-eventbridge-admin")
			require.Empty(t, service.Spec.Type, "it is unreachable from outside the cluster")
			require.Equal(t, int32(9091), service.Spec.Ports[0].Port)
			require.True(t, slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
				return p.Name == service.Spec.Ports[0].TargetPort.String() && p.ContainerPort == 9091
			}))
			for _, port := range named[*corev1.Service](t, all, "rouse-eventbridge").Spec.Ports {
				require.NotEqual(t, "admin", port.TargetPort.String(), "publishers reach it")
			}
			made := slices.ContainsFunc(of[*corev1.Secret](all), func(s *corev1.Secret) bool { return s.Name == "rouse-eventbridge-admin" })
			require.Equal(t, tc.makes, made)
			if made {
				require.Len(t, named[*corev1.Secret](t, all, "rouse-eventbridge-admin").StringData["token"], 48)
			}
		})
	}
}

func TestADisabledAdminAPIHasNoObjects(t *testing.T) {
	t.Parallel()
	all := render(t, values{"eventbridge.admin.enabled=false"})
	for _, object := range all {
		require.NotContains(t, object.GetName(), "admin")
	}
	container := named[*appsv1.Deployment](t, all, "rouse-eventbridge").Spec.Template.Spec.Containers[0]
	require.Empty(t, container.VolumeMounts)
	require.Len(t, container.Ports, 2)
	require.Len(t, named[*networkingv1.NetworkPolicy](t, all, "rouse-eventbridge").Spec.Ingress, 1)
}

func TestNetworkPolicyDeniesAdminAPIToOtherNamespaces(t *testing.T) {
	t.Parallel()
	from := func(set values) []networkingv1.NetworkPolicyPeer {
		for _, rule := range named[*networkingv1.NetworkPolicy](t, render(t, set), "rouse-eventbridge").Spec.Ingress {
			if rule.Ports[0].Port.String() == "admin" {
				require.Len(t, rule.Ports, 1)
				return rule.From
			}
		}
		return nil
	}
	byDefault := from(nil)
	require.Len(t, byDefault, 1)
	require.NotNil(t, byDefault[0].PodSelector)
	require.Nil(t, byDefault[0].NamespaceSelector, "pods of other namespaces are admitted")
	opened := from(values{"networkPolicies.adminFrom[0].namespaceSelector.matchLabels.name=operators"})
	require.Len(t, opened, 2)
	require.Equal(t, map[string]string{"name": "operators"}, opened[1].NamespaceSelector.MatchLabels)
}
