package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
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

	// version is the name that a pod template carries. It is empty for code that
	// comes from a spec.
	version string
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
	for _, part := range []string{c.Image, c.Source, string(c.Runtime)} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))[:versionDigits]
}

// CodeOf reads the code back from a pod template that was built here. It is
// false for any other template.
func CodeOf(template *corev1.PodTemplateSpec) (Code, bool) {
	code := Code{version: template.Annotations[AnnotationVersion]}
	for i := range template.Spec.Containers {
		container := &template.Spec.Containers[i]
		if container.Name != ContainerName {
			continue
		}
		code.Image = container.Image
		for _, variable := range container.Env {
			switch variable.Name {
			case EnvHandlerSource:
				code.Source = variable.Value
			case envRuntime:
				code.Runtime = v1alpha2.Runtime(variable.Value)
			}
		}
	}
	return code, code.version != "" && code.Image != "" && code.Runtime != ""
}
