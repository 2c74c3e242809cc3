package resources

import (
	_ "embed"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/build"
	"github.com/rouse-run/rouse/internal/workload"
)

// The commands of pods of Kyma's contract. They work in the Function's directory
// and start the image's server in the directory above. Nothing of a Function is
// part of their text.
var (
	//go:embed kyma-nodejs.sh
	kymaNodeJS string
	//go:embed kyma-python.sh
	kymaPython string
)

// Volumes of Kyma's contract.
const (
	sourcesVolume      = "sources"
	localVolume        = "local"
	kymaPackagesVolume = "package-registry-config"
)

// kymaCommand is process 1 of a pod of Kyma's contract until the server takes its
// place.
func kymaCommand(code Code) []string {
	script := kymaNodeJS
	if workload.IsPython(code.Runtime) {
		script = kymaPython
	}
	return []string{"sh", "-c", script}
}

// functionDir is where the handler lies in the pods of both contracts.
func functionDir(code Code) string { return build.FunctionDir(workload.IsPython(code.Runtime)) }

// kymaVolumes adds what the image's server and the package managers write to, and
// what they log in with. Code that is prepared has a volume of its own.
func kymaVolumes(
	code Code, vols []*corev1ac.VolumeApplyConfiguration, mounts []*corev1ac.VolumeMountApplyConfiguration,
) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration) {
	file := ".npmrc"
	if workload.IsPython(code.Runtime) {
		file = "pip.conf"
		vols, mounts = withEmptyDir(vols, mounts, localVolume, "/.local")
	}
	if code.Prepared.Input != "" {
		return vols, mounts
	}
	vols, mounts = withEmptyDir(vols, mounts, sourcesVolume, functionDir(code))
	return append(vols, secretVolume(kymaPackagesVolume, v1alpha2.PackageRegistrySecret, true)),
		append(mounts, corev1ac.VolumeMount().WithName(kymaPackagesVolume).WithReadOnly(true).
			WithMountPath(functionDir(code)+"/"+kymaPackagesVolume+"/"+file).WithSubPath(file))
}
