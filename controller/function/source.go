package function

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// refusal is why a source cannot be run by this release.
type refusal struct {
	reason, message string
}

// Error is the message.
func (r *refusal) Error() string { return r.message }

// encodedSource is the source in the form in which it travels to the pod. The
// error is a *refusal when the source needs what this release does not have.
func encodedSource(fn *v1alpha2.Function) (string, error) {
	inline := fn.Spec.Source.Inline
	if inline == nil {
		return "", &refusal{
			reason: v1alpha2.ReasonGitNotSupported,
			message: "This release does not run sources from Git repositories. " +
				"Put the code into spec.source.inline.source instead",
		}
	}
	if hasDependencies(fn.Spec.Runtime, inline.Dependencies) {
		return "", &refusal{
			reason: v1alpha2.ReasonDependenciesNotSupported,
			message: "This release does not install dependencies. Remove spec.source.inline.dependencies; " +
				"packages that the code needs can come with an image of your own in spec.runtimeImageOverride",
		}
	}
	encoded, err := resources.EncodeSource(inline.Source)
	if err != nil {
		return "", err
	}
	if len(encoded) > resources.MaxSource {
		return "", &refusal{
			reason: v1alpha2.ReasonSourceTooLarge,
			message: fmt.Sprintf("The source is too large: %d bytes when compressed and encoded, and a pod's environment takes %d. "+
				"Make spec.source.inline.source shorter, for example by moving data out of the code", len(encoded), resources.MaxSource),
		}
	}
	return encoded, nil
}

// hasDependencies tells whether there is anything to install. Tools write a
// package.json or a requirements.txt without any entry, too.
func hasDependencies(runtime v1alpha2.Runtime, dependencies string) bool {
	dependencies = strings.TrimSpace(dependencies)
	if dependencies == "" {
		return false
	}
	if resources.IsNodeJS(runtime) {
		var manifest struct {
			Dependencies         map[string]any `json:"dependencies"`
			OptionalDependencies map[string]any `json:"optionalDependencies"`
			PeerDependencies     map[string]any `json:"peerDependencies"`
		}
		err := json.Unmarshal([]byte(dependencies), &manifest)
		return err != nil ||
			len(manifest.Dependencies)+len(manifest.OptionalDependencies)+len(manifest.PeerDependencies) > 0
	}
	for line := range strings.Lines(dependencies) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}
