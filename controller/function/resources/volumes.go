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

// volumes are what the user asks for and nothing else: the kubelet takes about
// 0.3 s longer to start a pod that has any.
func volumes(fn *v1alpha2.Function) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration) {
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
	if security := fn.Spec.ContainerSecurityContext; !taken && security != nil && ptr.Deref(security.ReadOnlyRootFilesystem, false) {
		vols = append(vols, corev1ac.Volume().WithName(tmpVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
		mounts = append(mounts, corev1ac.VolumeMount().WithName(tmpVolume).WithMountPath(tmpPath))
	}
	return vols, mounts
}
