package charts

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/internal/routing"
)

func TestEventbridgeFlagsFollowTheValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  values
		want []string
	}{
		"by default": {nil, []string{
			"--service=rouse-system/rouse-eventbridge", "--storage-watermark=0.95", "--quota-share=0.5", "--sink-endpoints=pods", "--max-request-size=65536", "--max-reply-size=1048576",
			"--max-batch-size=1048576", "--max-batch-events=256", "--event-type-series=500", "--publish-max-bytes=67108864",
			"--publish-max-pending=1024", "--publish-timeout=5s", "--delivery-max-in-flight=1000", "--delivery-max-bytes=67108864", "--journal-events=20000",
			"--publish-max-connections=2048",
		}},
		"otherwise": {
			values{
				"stream.watermark=1", "stream.namespaceShare=0.3", "sinks.endpoints=service", "eventbridge.maxReplySize=2Mi", "eventbridge.publishes.maxPending=2000000",
				"eventbridge.maxBatchSize=2Mi", "eventbridge.maxBatchEvents=9", "eventbridge.eventTypeSeries=0", "eventbridge.publishes.maxBytes=1Gi",
				"eventbridge.publishes.timeoutSeconds=9", "eventbridge.delivery.maxInFlight=50", "eventbridge.delivery.maxBytes=32Mi", "eventbridge.journalEvents=0",
				"eventbridge.publishes.maxConnections=8000",
			},
			[]string{
				"--max-batch-size=2097152", "--max-batch-events=9", "--event-type-series=0", "--publish-max-bytes=1073741824",
				"--storage-watermark=1", "--quota-share=0.3", "--sink-endpoints=service", "--max-reply-size=2097152", "--publish-max-pending=2000000",
				"--publish-timeout=9s", "--delivery-max-in-flight=50",
				"--delivery-max-bytes=33554432", "--journal-events=0", "--publish-max-connections=8000",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container := named[*appsv1.Deployment](t, render(t, tc.set), "rouse-eventbridge").Spec.Template.Spec.Containers[0]
			require.Subset(t, container.Args, tc.want)
		})
	}
}

func TestAccessRulesAreAFlagOfAllComponents(t *testing.T) {
	t.Parallel()
	set := values{
		"access.subscribe.enabled=true", "access.subscribe.rules[0].namespaces={orders}", "access.subscribe.rules[0].types={order.>}",
		"access.publish.enabled=true", "access.publish.rules[0].serviceAccounts={shop/*}",
	}
	all := render(t, set)
	for _, name := range []string{"rouse-controller", "rouse-eventbridge", "rouse-scaler"} {
		var access routing.Access
		args := named[*appsv1.Deployment](t, all, name).Spec.Template.Spec.Containers[0].Args
		i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--access=") })
		require.GreaterOrEqual(t, i, 0, name)
		require.NoError(t, access.Set(strings.TrimPrefix(args[i], "--access=")))
		require.Equal(t, []string{"order.>"}, access.Subscribe.Rules[0].Types)
		require.Equal(t, routing.DefaultAudience, access.Publish.Audience)
	}
	reviews := func(set values) (resources []string) {
		for _, role := range of[*rbacv1.ClusterRole](render(t, set)) {
			for _, rule := range role.Rules {
				if strings.HasSuffix(rule.Resources[0], "reviews") {
					require.Equal(t, "rouse-reviews", role.Name)
					require.Equal(t, []string{"create"}, rule.Verbs)
					resources = append(resources, rule.Resources...)
				}
			}
		}
		return resources
	}
	require.Equal(t, []string{"tokenreviews", "subjectaccessreviews"}, reviews(set))
	require.Equal(t, []string{"tokenreviews", "subjectaccessreviews"}, reviews(nil))
	without := values{"eventbridge.admin.enabled=false"}
	require.Equal(t, []string{"tokenreviews"}, reviews(append(without, set...)))
	require.Empty(t, reviews(without), "without required tokens no component may create reviews")
}

func TestTheCertificatesOfSinksAreAFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  values
		want corev1.VolumeSource
	}{
		"of a ConfigMap": {
			values{"sinks.ca.configMap=roots", "sinks.ca.key=roots.pem", "nats.users.enabled=true"},
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "roots"},
				Items:                []corev1.KeyToPath{{Key: "roots.pem", Path: "roots.pem"}},
				DefaultMode:          new(int32(0o440)),
			}},
		},
		"of a Secret, with one file": {
			values{"sinks.ca.secret=roots", "sinks.ca.key=roots.pem", "eventbridge.admin.enabled=false"},
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName:  "roots",
				Items:       []corev1.KeyToPath{{Key: "roots.pem", Path: "roots.pem"}},
				DefaultMode: new(int32(0o440)),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := named[*appsv1.Deployment](t, render(t, tc.set), "rouse-eventbridge").Spec.Template.Spec
			require.Contains(t, pod.Containers[0].Args, "--sink-ca=/etc/rouse/sink-ca/roots.pem")
			mounts := pod.Containers[0].VolumeMounts
			mount := mounts[slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/rouse/sink-ca" })]
			require.True(t, mount.ReadOnly)
			volume := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })]
			require.Equal(t, tc.want, volume.VolumeSource)
		})
	}
}

func TestStreamFillAlertsHaveTwoThresholds(t *testing.T) {
	t.Parallel()
	all := render(t, values{"metrics.alerts.enabled=true", "metrics.alerts.storageRatio=0.7"})
	found := map[string]string{}
	for _, object := range of[*unstructured.Unstructured](all) {
		groups, _, err := unstructured.NestedSlice(object.Object, "spec", "groups")
		require.NoError(t, err)
		for _, group := range groups {
			for _, rule := range group.(map[string]any)["rules"].([]any) {
				severity, _, err := unstructured.NestedString(rule.(map[string]any), "labels", "severity")
				require.NoError(t, err)
				found[rule.(map[string]any)["alert"].(string)] = severity + ": " + rule.(map[string]any)["expr"].(string)
			}
		}
	}
	expression := func(severity string, ratio float64) string {
		return severity + ": max by (stream) (max_over_time(rouse_eventbridge_stream_fill_ratio[5m])) >= " + strconv.FormatFloat(ratio, 'g', -1, 64)
	}
	require.Equal(t, expression("warning", 0.7), found["RouseStreamFills"])
	require.Equal(t, expression("critical", 0.95), found["RouseStreamNearlyFull"])
}

func TestTheSchemasOfEventsAreMountedIntoTheEventbridge(t *testing.T) {
	t.Parallel()
	pod := named[*appsv1.Deployment](t, render(t, values{"eventbridge.schemas=event-schemas"}), "rouse-eventbridge").Spec.Template.Spec
	require.Contains(t, pod.Containers[0].Args, "--event-schemas=/etc/rouse/event-schemas")
	require.Contains(t, pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "event-schemas", MountPath: "/etc/rouse/event-schemas", ReadOnly: true})
	require.Contains(t, pod.Volumes, corev1.Volume{Name: "event-schemas", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "event-schemas"}, Optional: new(true),
	}}})
	without := named[*appsv1.Deployment](t, render(t, nil), "rouse-eventbridge").Spec.Template.Spec
	require.NotContains(t, strings.Join(without.Containers[0].Args, " "), "event-schemas")
}
