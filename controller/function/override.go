package function

import (
	"fmt"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/languages"
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
	known, err := languages.Of(s.fn.Spec.Runtime)
	if err != nil {
		return err.Error()
	}
	if known.Kyma == nil {
		return fmt.Sprintf("images of %s follow no contract of Kyma; set the annotation %s to %s",
			known.Title, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractRouse)
	}
	return fmt.Sprintf("spec.runtimeImageOverride names %s, which has to bring by Kyma's contract a server that %s and listens on "+
		"port 8080. Or make it FROM %s and set the annotation %s to %s",
		s.fn.Spec.RuntimeImageOverride, known.Kyma.Server, own, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractRouse)
}
