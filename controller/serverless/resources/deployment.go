package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/internal/applyconfig"
)

const (
	caVolume = "ca"
	caPath   = "/etc/rouse/ca"
)

// deployment returns the Function controller as the chart runs it.
func deployment(
	owner *operatorv1alpha1.Serverless, installation *Installation, settings *Settings,
) (*appsv1ac.DeploymentApplyConfiguration, error) {
	pod, err := podSpec(owner, &installation.Controller)
	if err != nil {
		return nil, err
	}
	controller := &installation.Controller
	return appsv1ac.Deployment(DeploymentName, owner.Namespace).
		WithLabels(objectLabels(owner)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(controller.Replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels())).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(podLabels()).
				WithAnnotations(podAnnotations(controller, settings)).
				WithSpec(pod))), nil
}

func podAnnotations(controller *Controller, settings *Settings) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, controller.PodAnnotations)
	maps.Copy(annotations, map[string]string{
		"kubectl.kubernetes.io/default-container":    containerName,
		"sidecar.istio.io/inject":                    "false",
		"rt-cfg.kyma-project.io/add-img-pull-secret": "true",
		"rt-cfg.kyma-project.io/alter-img-registry":  "true",
		// As in Kyma, a change of it replaces the pods, although the process would follow at run time.
		"serverless.kyma-project.io/log-format": settings.LogFormat,
	})
	if controller.CABundle != "" { // the process reads it only at its start
		sum := sha256.Sum256([]byte(controller.CABundle))
		annotations["checksum/ca"] = hex.EncodeToString(sum[:configHashLength])
	}
	return annotations
}

func podSpec(owner *operatorv1alpha1.Serverless, controller *Controller) (*corev1ac.PodSpecApplyConfiguration, error) {
	process, err := container(owner, controller)
	if err != nil {
		return nil, err
	}
	tolerations, err := applyconfig.Of[[]corev1ac.TolerationApplyConfiguration](controller.Tolerations)
	if err != nil {
		return nil, err
	}
	pod := corev1ac.PodSpec().
		WithServiceAccountName(AccountName).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(terminationSeconds).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(userID).WithRunAsGroup(userID).
			WithFSGroup(userID).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().
			WithMaxSkew(1).
			WithTopologyKey(corev1.LabelHostname).
			WithWhenUnsatisfiable(corev1.ScheduleAnyway).
			WithMatchLabelKeys("pod-template-hash").
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels()))).
		WithContainers(process)
	pod.Tolerations = *tolerations
	for _, name := range controller.ImagePullSecrets {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(name))
	}
	if controller.PriorityClassName != "" {
		pod.WithPriorityClassName(controller.PriorityClassName)
	}
	if len(controller.NodeSelector) > 0 {
		pod.WithNodeSelector(controller.NodeSelector)
	}
	if controller.CABundle != "" {
		pod.WithVolumes(corev1ac.Volume().WithName(caVolume).WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(CAName)))
	}
	return pod, nil
}

func container(owner *operatorv1alpha1.Serverless, controller *Controller) (*corev1ac.ContainerApplyConfiguration, error) {
	requirements, err := applyconfig.Of[corev1ac.ResourceRequirementsApplyConfiguration](controller.Resources)
	if err != nil {
		return nil, err
	}
	env, err := applyconfig.Of[[]corev1ac.EnvVarApplyConfiguration](controller.Env)
	if err != nil {
		return nil, err
	}
	process := corev1ac.Container().
		WithName(containerName).
		WithImage(controller.Image).
		WithCommand("/controller").
		WithArgs(slices.Concat(controller.Args, settingsArgs(owner), []string{
			"--controllers=functions",
			"--leader-elect",
			"--leader-elect-namespace=" + owner.Namespace,
			"--leader-elect-lease=" + LeaseName,
		})...).
		WithPorts(corev1ac.ContainerPort().WithName(metricsPort).WithContainerPort(metricsPortNumber)).
		WithStartupProbe(probe("/healthz").WithPeriodSeconds(1).WithFailureThreshold(60)).
		WithLivenessProbe(probe("/healthz").WithPeriodSeconds(10).WithTimeoutSeconds(5)).
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(5).WithTimeoutSeconds(2)).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).WithReadOnlyRootFilesystem(true).WithRunAsNonRoot(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithResources(requirements)
	process.Env = *env
	if controller.ImagePullPolicy != "" {
		process.WithImagePullPolicy(controller.ImagePullPolicy)
	}
	if controller.CABundle != "" {
		process.WithVolumeMounts(corev1ac.VolumeMount().WithName(caVolume).WithMountPath(caPath).WithReadOnly(true))
	}
	return process, nil
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString(metricsPort)))
}
