package resources

import (
	corev1 "k8s.io/api/core/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// keepSeconds is how long a Job that is not replaced or removed stays, for its
// log. It is longer than any wait for another try, which is computed from the
// Job.
const keepSeconds = 24 * 60 * 60

// UnschedulableSeconds is how long a build may wait for a node with capacity for its pod. An
// autoscaler that brings a node may take minutes. It is no part of the build's
// own time, which begins when the pod has a node.
const UnschedulableSeconds = 10 * 60

// Build is an image that is to be built.
type Build struct {
	// Name of the Job and of its input Secret.
	Name string
	// Base is the image in which the build runs, and to which it adds.
	Base string
	// GitSecret has the credentials for the repository; empty when there are none.
	GitSecret string
	// Annotations of the Job say what it was made for.
	Annotations map[string]string
}

// Job builds an image.
func Job(fn *v1alpha2.Function, settings *Settings, plan Build) (*batchv1ac.JobApplyConfiguration, error) {
	pod, err := newBuilderPod(settings, installContainerName, "install", plan.Base,
		Prepared{Input: plan.Name, GitSecret: plan.GitSecret}, BuildRequirements(fn, settings.Build.Profile))
	if err != nil {
		return nil, err
	}
	push := pod.push(fn, settings)
	return batchv1ac.Job(plan.Name, fn.Namespace).
		WithLabels(jobLabels(fn)).
		WithAnnotations(plan.Annotations).
		WithOwnerReferences(ownerReference(fn)).
		WithSpec(batchv1ac.JobSpec().
			WithParallelism(1).
			WithCompletions(1).
			WithBackoffLimit(0).
			// The last resort, when neither the pod's deadline nor the controller has ended it.
			WithActiveDeadlineSeconds(settings.Build.DeadlineSeconds + UnschedulableSeconds).
			WithTTLSecondsAfterFinished(keepSeconds).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(jobLabels(fn)).
				WithAnnotations(map[string]string{"sidecar.istio.io/inject": "false"}).
				WithSpec(corev1ac.PodSpec().
					WithRestartPolicy(corev1.RestartPolicyNever).
					WithActiveDeadlineSeconds(settings.Build.DeadlineSeconds). // from when it has a node
					WithInitContainers(pod.fetch).
					WithContainers(pod.install, push).
					WithVolumes(pod.volumes...).
					WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(RegistrySecretName(fn.Name))).
					WithSecurityContext(corev1ac.PodSecurityContext().
						WithRunAsNonRoot(true).
						WithRunAsUser(functionUser).
						WithRunAsGroup(functionUser).
						WithFSGroup(functionUser).
						WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
					WithAutomountServiceAccountToken(false).
					WithEnableServiceLinks(false)))), nil
}
