package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// Code is what makes a version of a Function. Everything else, from the
// environment to the resources, is the spec's, whichever version serves.
type Code struct {
	// Image that runs.
	Image string
	// Source is encoded; it is empty when the image holds the source.
	Source string
	// Runtime that the source is written for.
	Runtime v1alpha2.Runtime
	// Kyma is true for an image of Kyma's contract. Its code is in Inline instead
	// of Source, or Prepared.
	Kyma   bool
	Inline *workload.Inline
	// Prepared is what pods install for themselves, where no image has it.
	Prepared Prepared

	// version is the name that a pod template carries. It is empty for code that
	// comes from a spec.
	version string
}

// Prepared names the Secrets from which pods learn what to install.
type Prepared struct {
	// Input says what to do; it is empty when there is nothing to do.
	Input string
	// GitSecret has the credentials for the repository; empty when there are none.
	GitSecret string
}

// versionDigits keep versions short enough to type. There are at most as many
// of them as a Deployment keeps revisions.
const versionDigits = 10

// Version names the code: the same code always has the same version.
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

// CodeOf reads the code back from a pod template that was built here. It is
// false for any other template.
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

// read takes what a container runs. Only pods of Kyma's contract have a command.
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
