package resources

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// tmpVolume is the name of the volume that replaces a read-only tmpPath.
const (
	tmpVolume = "tmp"
	tmpPath   = "/tmp"
)

// volumes are what the user asks for and, but for Kyma's contract and a token for
// the publisher, nothing else: the kubelet takes about 0.3 s longer to start a pod
// that has any.
func volumes(
	fn *v1alpha2.Function, settings *Settings, code Code,
) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration, error) {
	var vols []*corev1ac.VolumeApplyConfiguration
	var mounts []*corev1ac.VolumeMountApplyConfiguration
	taken := false // whether the user mounts a Secret at /tmp
	for _, secret := range fn.Spec.SecretMounts {
		name := volumeName(secret.SecretName)
		vols = append(vols, corev1ac.Volume().WithName(name).
			WithSecret(corev1ac.SecretVolumeSource().
				WithSecretName(secret.SecretName).
				WithDefaultMode(0o666).
				WithOptional(false)))
		mounts = append(mounts, corev1ac.VolumeMount().
			WithName(name).WithMountPath(secret.MountPath).WithReadOnly(true))
		taken = taken || secret.MountPath == tmpPath
	}
	readOnly := ptr.Deref(ContainerSecurityContext(fn, code.Kyma).ReadOnlyRootFilesystem, false)
	if !taken && (readOnly || code.Kyma) {
		vols, mounts = withEmptyDir(vols, mounts, tmpVolume, tmpPath)
	}
	if settings.showsToken(fn) {
		vols, mounts = withToken(settings.PublisherAudience, vols, mounts)
	}
	if code.Kyma {
		return kymaVolumes(code, vols, mounts)
	}
	return vols, mounts, nil
}

func withEmptyDir(
	vols []*corev1ac.VolumeApplyConfiguration, mounts []*corev1ac.VolumeMountApplyConfiguration, name, path string,
) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration) {
	return append(vols, corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource())),
		append(mounts, corev1ac.VolumeMount().WithName(name).WithMountPath(path))
}
