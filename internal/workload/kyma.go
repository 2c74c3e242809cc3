package workload

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// EnvHandlerDependencies is the variable that carries dependencies to an image of
// Kyma's contract.
const EnvHandlerDependencies = "FUNC_HANDLER_DEPENDENCIES"

// Inline is code that a pod of Kyma's contract writes into files itself.
type Inline struct{ Source, Dependencies string }

// FitsEnvironment reports whether the kernel takes each part as a variable.
func (i Inline) FitsEnvironment() bool {
	return len(i.Source) <= MaxSource && len(i.Dependencies) <= MaxSource
}

// KymaEnvironment lists the variables for an image of Kyma's contract. Inline is nil when the code is in files already.
func KymaEnvironment(fn *v1alpha2.Function, runtime v1alpha2.Runtime, inline *Inline, addresses Addresses) []corev1.EnvVar {
	env := common(fn, runtime, addresses)
	if inline != nil {
		env = append(env,
			corev1.EnvVar{Name: EnvHandlerSource, Value: literal(inline.Source)},
			corev1.EnvVar{Name: EnvHandlerDependencies, Value: literal(inline.Dependencies)},
		)
	}
	if known, err := languages.Of(runtime); err == nil && known.Kyma != nil {
		env = append(env, variables(known.Kyma.Environment(string(runtime)))...)
	}
	return lastOfEach(env)
}

// InlineOf reads back what KymaEnvironment has written, nil if that had no code.
func InlineOf(env []corev1.EnvVar) *Inline {
	var found *Inline
	for _, variable := range env {
		switch variable.Name {
		case EnvHandlerSource, EnvHandlerDependencies:
			if found == nil {
				found = &Inline{}
			}
			text := strings.ReplaceAll(variable.Value, "$$", "$")
			if variable.Name == EnvHandlerSource {
				found.Source = text
			} else {
				found.Dependencies = text
			}
		}
	}
	return found
}

// literal keeps Kubernetes from expanding $(NAME) and $$ in a value.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }
