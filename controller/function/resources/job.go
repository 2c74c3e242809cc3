package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// keepSeconds is how long a Job that is not replaced or removed is kept for its log. It is longer than any delay before
// a retry, which is computed from the Job.
const keepSeconds = 24 * 60 * 60

// UnschedulableSeconds is how long a build may wait for a node with capacity for its pod. An autoscaler may take
// minutes to add a node. It does not count towards the build's deadline, which starts when the pod has a node.
const UnschedulableSeconds = 10 * 60

// Build is an image to build.
type Build struct {
	// Name is the name of the Job and of its input Secret.
	Name string
	// Base is the image in which the build runs, and to which it adds.
	Base string
	// GitSecret holds the credentials for the repository; empty when there are none.
	GitSecret string
	// Annotations of the Job record its inputs.
	Annotations map[string]string
}

// Job returns the Job that builds an image.
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
			// The last resort, when neither the pod's deadline nor the controller ended it.
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

// Containers of a build, in the order in which the kubelet starts them.
const (
	fetchContainerName   = "fetch"
	installContainerName = "install"
	// PushContainerName is the container that pushes the image, the only one whose report of the digest is trusted.
	PushContainerName = "push"
	// prepareContainerName replaces the last two where pods install their own dependencies.
	prepareContainerName = "prepare"
)

// Volumes of a pod in which the builder works.
const (
	binVolume      = "builder-bin"
	sourceVolume   = "builder-source"
	handoverVolume = "builder-handover"
	// The private working directory of each container.
	fetchVolume    = "builder-fetch"
	installVolume  = "builder-install"
	pushVolume     = "builder-push"
	inputVolume    = "builder-input"
	registryVolume = "builder-registry"
	gitVolume      = "builder-git"
	packagesVolume = "builder-packages"
	functionVolume = "function"
)

// Sizes of volumes that hold nothing of the Function.
var (
	binSize      = resource.MustParse("256Mi")
	handoverSize = resource.MustParse("1Mi")
)

// builderPod holds the parts of a pod in which the builder works: a container that provides its program and the source,
// one of the runtime's image in which packages and their scripts run, and the volumes. Each container sees only the
// credentials that it needs, and scripts of packages see only the package registry's.
type builderPod struct {
	fetch, install *corev1ac.ContainerApplyConfiguration
	volumes        []*corev1ac.VolumeApplyConfiguration
	volumeSize     resource.Quantity
}

// newBuilderPod runs a command of the builder on the content of the input Secret.
func newBuilderPod(
	settings *Settings, name, command, image string, prepared Prepared, requirements corev1.ResourceRequirements,
) (*builderPod, error) {
	needs, err := applyconfig.Of[corev1ac.ResourceRequirementsApplyConfiguration](requirements)
	if err != nil {
		return nil, err
	}
	pod := &builderPod{
		fetch:      settings.Build.container(fetchContainerName, settings.Build.Builder, "/builder", "fetch").WithResources(needs),
		install:    settings.Build.container(name, image, buildplan.BinaryDir+"/builder", command).WithResources(needs),
		volumeSize: settings.Build.VolumeSize,
	}
	pod.add(emptyVolume(binVolume, binSize), mount{pod.fetch, buildplan.BinaryDir, false}, mount{pod.install, buildplan.BinaryDir, true})
	pod.add(emptyVolume(sourceVolume, pod.volumeSize), mount{pod.fetch, buildplan.SourceDir, false}, mount{pod.install, buildplan.SourceDir, true})
	pod.add(emptyVolume(fetchVolume, pod.volumeSize), mount{pod.fetch, buildplan.WorkDir, false})
	pod.add(emptyVolume(installVolume, pod.volumeSize), mount{pod.install, buildplan.WorkDir, false})
	pod.add(secretVolume(inputVolume, prepared.Input, false), mount{pod.fetch, buildplan.InputDir, true}, mount{pod.install, buildplan.InputDir, true})
	pod.add(secretVolume(packagesVolume, v1alpha2.PackageRegistrySecret, true), mount{pod.install, buildplan.PackagesDir, true})
	if prepared.GitSecret != "" {
		pod.add(secretVolume(gitVolume, prepared.GitSecret, false), mount{pod.fetch, buildplan.GitDir, true})
	}
	return pod, nil
}

// mount is where a container mounts a volume.
type mount struct {
	container *corev1ac.ContainerApplyConfiguration
	path      string
	readOnly  bool
}

// add mounts a volume into containers.
func (p *builderPod) add(volume *corev1ac.VolumeApplyConfiguration, mounts ...mount) {
	p.volumes = append(p.volumes, volume)
	for _, m := range mounts {
		at := corev1ac.VolumeMount().WithName(*volume.Name).WithMountPath(m.path)
		if m.readOnly {
			at.WithReadOnly(true)
		}
		m.container.WithVolumeMounts(at)
	}
}

// push returns the container with the credentials of the registry. It runs no code of the Function, and shares only a
// socket with the container that installs.
func (p *builderPod) push(fn *v1alpha2.Function, settings *Settings) *corev1ac.ContainerApplyConfiguration {
	container := settings.Build.container(PushContainerName, settings.Build.Builder, "/builder", "push").
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(pushRequests()).
			WithLimits(pushLimits()))
	p.add(emptyVolume(handoverVolume, handoverSize), mount{p.install, buildplan.HandoverDir, false}, mount{container, buildplan.HandoverDir, false})
	p.add(emptyVolume(pushVolume, p.volumeSize), mount{container, buildplan.WorkDir, false})
	container.WithVolumeMounts(corev1ac.VolumeMount().WithName(inputVolume).WithMountPath(buildplan.InputDir).WithReadOnly(true))
	p.add(corev1ac.Volume().WithName(registryVolume).WithSecret(corev1ac.SecretVolumeSource().
		WithSecretName(RegistrySecretName(fn.Name)).
		WithItems(corev1ac.KeyToPath().WithKey(corev1.DockerConfigJsonKey).WithPath("config.json"))),
		mount{container, buildplan.RegistryDir, true})
	return container
}

// pushRequests and pushLimits are small: layers are streamed.
func pushRequests() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
}

func pushLimits() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi")}
}

// container returns a container in which the builder runs.
func (s *BuildSettings) container(name, image string, command ...string) *corev1ac.ContainerApplyConfiguration {
	container := builderContainer(name, image, command...)
	if s.FIPS.Asked() {
		container.WithCommand("--fips-mode=" + string(s.FIPS)).
			WithEnv(corev1ac.EnvVar().WithName(fips.Variable).WithValue(s.FIPS.Setting()))
	}
	return container
}

// builderContainer fits the restricted Pod Security level.
func builderContainer(name, image string, command ...string) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(name).
		WithImage(image).
		WithCommand(command...).
		WithEnv(
			corev1ac.EnvVar().WithName("HOME").WithValue(buildplan.WorkDir+"/home"),
			corev1ac.EnvVar().WithName("TMPDIR").WithValue(buildplan.WorkDir+"/tmp"),
		).
		WithSecurityContext(corev1ac.SecurityContext().
			WithPrivileged(false).
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithRunAsNonRoot(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile)
}

func emptyVolume(name string, size resource.Quantity) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(size))
}

func secretVolume(name, secret string, optional bool) *corev1ac.VolumeApplyConfiguration {
	source := corev1ac.SecretVolumeSource().WithSecretName(secret)
	if optional {
		source.WithOptional(true)
	}
	return corev1ac.Volume().WithName(name).WithSecret(source)
}

// prepare lets a pod install what no image contains.
func prepare(
	fn *v1alpha2.Function, settings *Settings, code Code, spec *corev1ac.PodSpecApplyConfiguration,
	container *corev1ac.ContainerApplyConfiguration,
) error {
	pod, err := newBuilderPod(settings, prepareContainerName, "prepare", code.Image, code.Prepared, prepareRequirements(fn, settings))
	if err != nil {
		return err
	}
	known, err := languages.Of(code.Runtime)
	if err != nil {
		return err
	}
	pod.add(emptyVolume(functionVolume, pod.volumeSize),
		mount{pod.install, known.FunctionDir, false}, mount{container, known.FunctionDir, false})
	spec.WithInitContainers(pod.fetch, pod.install).WithVolumes(pod.volumes...)
	return nil
}

// InputSecret holds the builder's input: for a Job of the same name, or for pods that install their own dependencies.
func InputSecret(fn *v1alpha2.Function, name, resource string, plan, ca []byte) *corev1ac.SecretApplyConfiguration {
	data := map[string][]byte{buildplan.PlanFile: plan}
	if len(ca) > 0 {
		data[buildplan.CAFile] = ca
	}
	return corev1ac.Secret(name, fn.Namespace).
		WithLabels(overlay(internalLabels(fn), map[string]string{v1alpha2.LabelResource: resource})).
		WithOwnerReferences(ownerReference(fn)).
		WithType(corev1.SecretTypeOpaque).
		WithData(data)
}

// RegistrySecret holds the credentials with which a Function's images are pushed and pulled.
func RegistrySecret(fn *v1alpha2.Function, dockerConfig []byte) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(RegistrySecretName(fn.Name), fn.Namespace).
		WithLabels(internalLabels(fn)).
		WithOwnerReferences(ownerReference(fn)).
		WithType(corev1.SecretTypeDockerConfigJson).
		WithData(map[string][]byte{corev1.DockerConfigJsonKey: dockerConfig})
}
