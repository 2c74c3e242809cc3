package resources

import (
	"fmt"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Volumes of Kyma's contract.
const (
	sourcesVolume      = "sources"
	localVolume        = "local"
	kymaPackagesVolume = "package-registry-config"
)

// kymaOf is the language of code for an image of Kyma's contract.
func kymaOf(code Code) (*language.Language, error) {
	known, err := languages.Of(code.Runtime)
	if err != nil {
		return nil, err
	}
	if known.Kyma == nil {
		return nil, fmt.Errorf("images of %s follow no contract of Kyma: set the annotation %s to %s",
			known.Title, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractRouse)
	}
	return known, nil
}

// kymaCommand is process 1 of a pod of Kyma's contract until the server takes its
// place. It works in the Function's directory and starts the image's server in the
// directory above. Nothing of a Function is part of its text.
func kymaCommand(known *language.Language) []string {
	return []string{"sh", "-c", known.Kyma.Script}
}

// kymaVolumes adds what the image's server and the package managers write to, and
// what they log in with. Code that is prepared has a volume of its own.
func kymaVolumes(
	code Code, vols []*corev1ac.VolumeApplyConfiguration, mounts []*corev1ac.VolumeMountApplyConfiguration,
) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration, error) {
	known, err := kymaOf(code)
	if err != nil {
		return nil, nil, err
	}
	if dir := known.Kyma.WritableDir; dir != "" {
		vols, mounts = withEmptyDir(vols, mounts, localVolume, dir)
	}
	if code.Prepared.Input != "" {
		return vols, mounts, nil
	}
	file := known.Packages.Settings
	vols, mounts = withEmptyDir(vols, mounts, sourcesVolume, known.FunctionDir)
	return append(vols, secretVolume(kymaPackagesVolume, v1alpha2.PackageRegistrySecret, true)),
		append(mounts, corev1ac.VolumeMount().WithName(kymaPackagesVolume).WithReadOnly(true).
			WithMountPath(known.FunctionDir+"/"+kymaPackagesVolume+"/"+file).WithSubPath(file)), nil
}
