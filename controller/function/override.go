package function

import (
	"fmt"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// overridden reports whether the pods run an image of the user's.
func (s *scope) overridden() bool { return s.fn.Spec.RuntimeImageOverride != "" }

// overrideHint says what the user's image has to bring. The controller cannot
// know why a foreign image does not answer.
func overrideHint(s *scope) string {
	own := "one of the installation's runtime images"
	if base := s.settings.Images[string(s.fn.Spec.Runtime)]; base != "" {
		own = base
	}
	if !s.code.Kyma {
		return fmt.Sprintf("spec.runtimeImageOverride names %s, which has to bring the server of a runtime of Rouse and its entry point: "+
			"make it FROM %s, or set the annotation %s to %s if it follows Kyma's contract",
			s.fn.Spec.RuntimeImageOverride, own, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractKyma)
	}
	server := "npm start runs in /usr/src/app"
	if workload.IsPython(s.fn.Spec.Runtime) {
		server = "is /server.py or /kubeless.py"
	}
	return fmt.Sprintf("spec.runtimeImageOverride names %s, which has to bring by Kyma's contract a server that %s and listens on "+
		"port 8080. Or make it FROM %s and set the annotation %s to %s",
		s.fn.Spec.RuntimeImageOverride, server, own, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractRouse)
}
