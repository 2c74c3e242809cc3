package resources

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/build"
	"github.com/rouse-run/rouse/internal/workload"
)

// BuildContainerName is the name of the container that builds.
const BuildContainerName = "build"

const (
	copyContainerName    = "builder"
	prepareContainerName = "prepare"
)

// Volumes of a pod in which the builder works.
const (
	binVolume      = "builder-bin"
	workVolume     = "builder-work"
	inputVolume    = "builder-input"
	registryVolume = "builder-registry"
	gitVolume      = "builder-git"
	packagesVolume = "builder-packages"
	functionVolume = "function"
)

// builderPod are the parts of a pod that the builder needs: a container that
// brings its program, one of the runtime's image in which the program works,
// and their volumes.
type builderPod struct {
	bring, work *corev1ac.ContainerApplyConfiguration
	volumes     []*corev1ac.VolumeApplyConfiguration
}

// newBuilderPod runs a command of the builder on what is in the input Secret.
func newBuilderPod(
	settings *Settings, name, command, image string, prepared Prepared, requirements corev1.ResourceRequirements,
) (*builderPod, error) {
	needs, err := convert[corev1ac.ResourceRequirementsApplyConfiguration](requirements)
	if err != nil {
		return nil, err
	}
	pod := &builderPod{
		bring: builderContainer(copyContainerName, settings.Build.Builder, "/builder", "copy"),
		work:  builderContainer(name, image, build.BinaryDir+"/builder", command),
	}
	pod.bring.WithResources(needs)
	pod.work.WithResources(needs)
	bin := corev1ac.Volume().WithName(binVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource())
	pod.bring.WithVolumeMounts(corev1ac.VolumeMount().WithName(binVolume).WithMountPath(build.BinaryDir))
	pod.mount(bin, build.BinaryDir, true)
	pod.mount(corev1ac.Volume().WithName(workVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource()), build.WorkDir, false)
	pod.mount(secretVolume(inputVolume, prepared.Input, false), build.InputDir, true)
	pod.mount(secretVolume(packagesVolume, v1alpha2.PackageRegistrySecret, true), build.PackagesDir, true)
	if prepared.GitSecret != "" {
		pod.mount(secretVolume(gitVolume, prepared.GitSecret, false), build.GitDir, true)
	}
	return pod, nil
}

// mount shows a volume to the program at work.
func (p *builderPod) mount(volume *corev1ac.VolumeApplyConfiguration, path string, readOnly bool) {
	p.volumes = append(p.volumes, volume)
	mount := corev1ac.VolumeMount().WithName(*volume.Name).WithMountPath(path)
	if readOnly {
		mount.WithReadOnly(true)
	}
	p.work.WithVolumeMounts(mount)
}

// builderContainer fits the restricted Pod Security level.
func builderContainer(name, image string, command ...string) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(name).
		WithImage(image).
		WithCommand(command...).
		WithEnv(
			corev1ac.EnvVar().WithName("HOME").WithValue(build.WorkDir+"/home"),
			corev1ac.EnvVar().WithName("TMPDIR").WithValue(build.WorkDir+"/tmp"),
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

func secretVolume(name, secret string, optional bool) *corev1ac.VolumeApplyConfiguration {
	source := corev1ac.SecretVolumeSource().WithSecretName(secret)
	if optional {
		source.WithOptional(true)
	}
	return corev1ac.Volume().WithName(name).WithSecret(source)
}

// prepare lets a pod install for itself what no image has.
func prepare(
	fn *v1alpha2.Function, settings *Settings, code Code, spec *corev1ac.PodSpecApplyConfiguration,
	container *corev1ac.ContainerApplyConfiguration,
) error {
	pod, err := newBuilderPod(settings, prepareContainerName, "prepare", code.Image, code.Prepared, prepareRequirements(fn, settings))
	if err != nil {
		return err
	}
	directory := build.FunctionDir(workload.IsPython(code.Runtime))
	pod.mount(corev1ac.Volume().WithName(functionVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource()), directory, false)
	container.WithVolumeMounts(corev1ac.VolumeMount().WithName(functionVolume).WithMountPath(directory))
	spec.WithInitContainers(pod.bring, pod.work).WithVolumes(pod.volumes...)
	return nil
}
