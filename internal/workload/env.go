package workload

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// EnvHandlerSource is the variable that carries the encoded source.
const EnvHandlerSource = "FUNC_HANDLER_SOURCE"

// EnvRuntime is the variable that names the runtime.
const EnvRuntime = "FUNC_RUNTIME"

// The variables that say where a Function publishes, and in which file is the token that it shows there.
const (
	EnvPublisher      = "PUBLISHER_PROXY_ADDRESS"
	EnvPublisherToken = "PUBLISHER_TOKEN_FILE"
)

// Addresses are the installation's, as Functions get them.
type Addresses struct {
	// Publisher is where they publish events.
	Publisher string
	// PublisherToken is the file of the token that they show there; empty when they have none.
	PublisherToken string
	// TraceCollector is where they send traces; it may be empty.
	TraceCollector string
}

// Environment lists the variables of a Function in the order in which they may
// refer to each other. The user's come after the defaults, so they win; what
// must not be changed comes last. The runtime and the encoded source, which is
// empty when the Function has it elsewhere, need not be those of the spec.
func Environment(fn *v1alpha2.Function, runtime v1alpha2.Runtime, source string, addresses Addresses) []corev1.EnvVar {
	env := common(fn, runtime, addresses)
	if source != "" {
		env = append(env, corev1.EnvVar{Name: EnvHandlerSource, Value: source})
	}
	return lastOfEach(env)
}

func common(fn *v1alpha2.Function, runtime v1alpha2.Runtime, addresses Addresses) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "FUNC_NAME", Value: fn.Name},
		{Name: EnvRuntime, Value: string(runtime)},
		{Name: "SERVICE_NAMESPACE", Value: fn.Namespace},
		{Name: "TRACE_COLLECTOR_ENDPOINT", Value: addresses.TraceCollector},
		{Name: EnvPublisher, Value: addresses.Publisher},
	}
	// What is of no language has no variables of one; it never gets as far as a pod.
	if known, err := languages.Of(runtime); err == nil {
		env = append(env, variables(known.Environment)...)
	}
	env = append(env, bindingRoot(fn)...)
	env = append(env, fn.Spec.Env...)
	if addresses.PublisherToken != "" {
		env = append(env, corev1.EnvVar{Name: EnvPublisherToken, Value: addresses.PublisherToken})
	}
	return env
}

func variables(of []language.Variable) []corev1.EnvVar {
	env := make([]corev1.EnvVar, 0, len(of))
	for _, variable := range of {
		env = append(env, corev1.EnvVar{Name: variable.Name, Value: variable.Value})
	}
	return env
}

// lastOfEach keeps the last variable of each name: Kubernetes lets it win, and
// server-side apply refuses a name that comes twice.
func lastOfEach(env []corev1.EnvVar) []corev1.EnvVar {
	last := make(map[string]int, len(env))
	for i, variable := range env {
		last[variable.Name] = i
	}
	kept := make([]corev1.EnvVar, 0, len(last))
	for i, variable := range env {
		if last[variable.Name] == i {
			kept = append(kept, variable)
		}
	}
	return kept
}
