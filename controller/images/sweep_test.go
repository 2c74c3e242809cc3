package images

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deployed is a registry as the chart installs it.
func deployed() *appsv1.Deployment {
	selector := map[string]string{"app.kubernetes.io/component": "registry"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "rouse-system", Name: "rouse-registry", UID: "1"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{Name: "proxy", Image: "rouse:1"}, {
						Name: "registry", Image: "registry:3", Args: []string{"serve", "/etc/registry/config.yml"},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
						Ports: []corev1.ContainerPort{{ContainerPort: 5000}}, ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
							TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(5000)},
						}},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
					Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "rouse-registry"},
					}}},
				},
			},
		},
	}
}

func TestASweepRunsTheRegistrysOwnCollectorOnItsVolumeAndNode(t *testing.T) {
	t.Parallel()
	registry := deployed()
	job, err := sweepJob(registry)
	require.NoError(t, err)
	pod, serving := job.Spec.Template.Spec, registry.Spec.Template.Spec
	require.Len(t, pod.Containers, 1, "the proxy serves on")
	require.Equal(t, []string{"garbage-collect", "--delete-untagged", "/etc/registry/config.yml"}, pod.Containers[0].Args)
	require.Equal(t, serving.Containers[1].Image, pod.Containers[0].Image)
	require.Equal(t, serving.Containers[1].VolumeMounts, pod.Containers[0].VolumeMounts)
	require.Equal(t, serving.Volumes, pod.Volumes)
	require.Equal(t, serving.SecurityContext, pod.SecurityContext)
	require.Equal(t, registry.Spec.Selector, pod.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector)
	require.Nil(t, pod.Containers[0].ReadinessProbe)
	require.Equal(t, corev1.RestartPolicyNever, pod.RestartPolicy)
	require.NotContains(t, job.Spec.Template.Labels, "app.kubernetes.io/component", "the Service must not send requests to it")
	require.Equal(t, "serve", registry.Spec.Template.Spec.Containers[1].Args[0], "the Deployment itself is left alone")
}

func TestADeploymentThatIsNotTheChartsIsNotSwept(t *testing.T) {
	t.Parallel()
	registry := deployed()
	registry.Spec.Template.Spec.Containers[1].Name = "other"
	_, err := sweepJob(registry)
	require.ErrorContains(t, err, "has no container registry")
	registry = deployed()
	registry.Spec.Template.Spec.Containers[1].Args = nil
	_, err = sweepJob(registry)
	require.ErrorContains(t, err, "does not say which configuration")
}
