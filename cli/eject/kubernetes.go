package eject

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/internal/workload"
)

const (
	// port is the port on which the runtimes listen, and user the user of their images.
	port = 8080
	user = 1000
	// health answers 200 once the handler is loaded.
	health = "/healthz"
	label  = "app.kubernetes.io/name"
)

// manifestsOf returns the Deployment and the Service.
func manifestsOf(fn Function) (string, error) {
	labels := map[string]string{label: fn.Name}
	meta := metav1.ObjectMeta{Name: fn.Name, Namespace: fn.Namespace, Labels: labels}
	var text strings.Builder
	for _, object := range []any{
		&appsv1.Deployment{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{
				Replicas: new(replicas(fn)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podOf(fn)},
			},
		},
		&corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta,
			Spec: corev1.ServiceSpec{
				Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(port)}},
			},
		},
	} {
		written, err := written(object)
		if err != nil {
			return "", fmt.Errorf("write the manifests of %s: %w", fn.Name, err)
		}
		text.WriteString("---\n" + written)
	}
	return text.String(), nil
}

// written returns an object as YAML, without the fields that a cluster sets.
func written(object any) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", err
	}
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	text, err := yaml.Marshal(content)
	return string(text), err
}

// replicas returns a number that serves: nothing would wake a Deployment that sleeps.
func replicas(fn Function) int32 {
	if fn.Spec.ScaleConfig != nil {
		low, _ := workload.ReplicaBounds(fn.Function.Function)
		return max(low, 1)
	}
	return max(ptr.Deref(fn.Spec.Replicas, 1), 1)
}

func podOf(fn Function) corev1.PodSpec {
	container := corev1.Container{
		Name: "function", Image: fn.Image,
		Env:            workload.Environment(fn.Function.Function, fn.Spec.Runtime, "", workload.Addresses{}),
		Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: port}},
		ReadinessProbe: probe(1, 3), LivenessProbe: probe(10, 6),
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if configured := fn.Spec.ResourceConfiguration; configured != nil && configured.Function != nil && configured.Function.Resources != nil {
		container.Resources = *configured.Function.Resources
	}
	pod := corev1.PodSpec{
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user), FSGroup: ptr.To[int64](user),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	for i, mount := range fn.Spec.SecretMounts {
		name := fmt.Sprintf("secret-%d", i+1)
		pod.Volumes = append(pod.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: mount.SecretName}},
		})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: mount.MountPath, ReadOnly: true})
	}
	pod.Containers = []corev1.Container{container}
	return pod
}

func probe(period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: health, Port: intstr.FromInt32(port)}},
		PeriodSeconds: period, TimeoutSeconds: 2, FailureThreshold: failures,
	}
}
