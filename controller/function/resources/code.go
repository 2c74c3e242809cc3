package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Code is what distinguishes the versions of a Function. Everything else, from the environment to the resources, comes
// from the spec, whichever version serves.
type Code struct {
	// Image is the image that runs.
	Image string
	// Source is the encoded source, empty when the image contains it.
	Source string
	// Runtime is the runtime that the source is written for.
	Runtime v1alpha2.Runtime
	// Kyma is true for an image that follows Kyma's contract. Its code is in Inline or Prepared instead of Source.
	Kyma   bool
	Inline *workload.Inline
	// Prepared is what pods install themselves when no image contains it.
	Prepared Prepared

	// version is the version that a pod template carries, empty for code that comes from a spec.
	version string
}

// Prepared names the Secrets that tell pods what to install.
type Prepared struct {
	// Input is the Secret with the plan; empty when there is nothing to install.
	Input string
	// GitSecret holds the credentials for the repository; empty when there are none.
	GitSecret string
}

// versionDigits keeps versions short enough to type. A Deployment has at most as many versions as it keeps revisions.
const versionDigits = 10

// Version identifies the code: equal code has the same version.
func (c Code) Version() string {
	if c.version != "" {
		return c.version
	}
	hash := sha256.New()
	parts := []string{c.Image, c.Source, string(c.Runtime)}
	if c.Prepared.Input != "" {
		parts = append(parts, c.Prepared.Input)
	}
	if c.Kyma {
		parts = append(parts, v1alpha2.RuntimeContractKyma)
	}
	if c.Inline != nil {
		parts = append(parts, c.Inline.Source, c.Inline.Dependencies)
	}
	for _, part := range parts {
		hash.Write(fmt.Appendf(nil, "%d:%s", len(part), part))
	}
	return hex.EncodeToString(hash.Sum(nil))[:versionDigits]
}

// CodeOf reads the code back from a pod template of this package. It returns false for any other template.
func CodeOf(template *corev1.PodTemplateSpec) (Code, bool) {
	code := Code{version: template.Annotations[AnnotationVersion]}
	for i := range template.Spec.Containers {
		if container := &template.Spec.Containers[i]; container.Name == ContainerName {
			code.read(container)
		}
	}
	for i := range template.Spec.Volumes {
		volume := &template.Spec.Volumes[i]
		switch {
		case volume.Secret == nil:
		case volume.Name == inputVolume:
			code.Prepared.Input = volume.Secret.SecretName
		case volume.Name == gitVolume:
			code.Prepared.GitSecret = volume.Secret.SecretName
		}
	}
	return code, code.version != "" && code.Image != "" && code.Runtime != ""
}

// read reads the code of a container. Only pods of Kyma's contract have a command.
func (c *Code) read(container *corev1.Container) {
	c.Image, c.Kyma = container.Image, len(container.Command) > 0
	for _, variable := range container.Env {
		switch variable.Name {
		case workload.EnvHandlerSource:
			c.Source = variable.Value
		case workload.EnvRuntime:
			c.Runtime = v1alpha2.Runtime(variable.Value)
		}
	}
	if c.Kyma {
		c.Source, c.Inline = "", workload.InlineOf(container.Env)
	}
}

// FollowsKyma reports whether the image of a Function follows Kyma's contract. An image that cannot be one of ours
// does: Kyma's manifests have no annotation.
func FollowsKyma(fn *v1alpha2.Function, settings *Settings) bool {
	if fn.Spec.RuntimeImageOverride == "" {
		return false
	}
	// Kyma has no such runtime, so the image can only be one of ours.
	if known, err := languages.Of(fn.Spec.Runtime); err == nil && known.Kyma == nil {
		return false
	}
	if contract := fn.Annotations[v1alpha2.AnnotationRuntimeContract]; contract != "" {
		return contract == v1alpha2.RuntimeContractKyma
	}
	for _, image := range settings.Images {
		if repositoryOf(image) == repositoryOf(fn.Spec.RuntimeImageOverride) {
			return false
		}
	}
	return true
}

// repositoryOf returns an image's reference without tag and digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		image = image[:colon]
	}
	return image
}

// Image returns the image of a Function, empty when its runtime has none.
func Image(fn *v1alpha2.Function, settings *Settings) string {
	if fn.Spec.RuntimeImageOverride != "" {
		return fn.Spec.RuntimeImageOverride
	}
	return settings.Images[string(fn.Spec.Runtime)]
}

// Volumes of pods that follow Kyma's contract.
const (
	sourcesVolume      = "sources"
	localVolume        = "local"
	kymaPackagesVolume = "package-registry-config"
)

// kymaOf returns the language of code for an image that follows Kyma's contract.
func kymaOf(code Code) (*language.Language, error) {
	known, err := languages.Of(code.Runtime)
	if err != nil {
		return nil, err
	}
	if known.Kyma == nil {
		return nil, fmt.Errorf("images of %s cannot follow Kyma's contract: set the annotation %s to %s",
			known.Title, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractRouse)
	}
	return known, nil
}

// kymaCommand is process 1 of a pod of Kyma's contract until the server replaces it. It works in the Function's
// directory and starts the image's server in the parent directory. Its text contains nothing of a Function.
func kymaCommand(known *language.Language) []string {
	return []string{"sh", "-c", known.Kyma.Script}
}

// kymaVolumes adds the directories that the image's server and the package managers write to, and their credentials.
// Prepared code has a volume of its own.
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
