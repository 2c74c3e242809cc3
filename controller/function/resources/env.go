package resources

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// EnvHandlerSource is the variable that carries the encoded source.
const EnvHandlerSource = "FUNC_HANDLER_SOURCE"

// envRuntime is the variable that names the runtime.
const envRuntime = "FUNC_RUNTIME"

// environment lists the variables of the container in the order in which they
// may refer to each other. The user's come after the defaults, so they win;
// what must not be changed comes last.
func environment(fn *v1alpha2.Function, settings *Settings, code Code) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "FUNC_NAME", Value: fn.Name},
		{Name: envRuntime, Value: string(code.Runtime)},
		{Name: "SERVICE_NAMESPACE", Value: fn.Namespace},
		{Name: "TRACE_COLLECTOR_ENDPOINT", Value: settings.TraceCollectorEndpoint},
		{Name: "PUBLISHER_PROXY_ADDRESS", Value: settings.PublisherAddress},
	}
	if IsPython(code.Runtime) {
		env = append(env,
			corev1.EnvVar{Name: "PYTHONUNBUFFERED", Value: "TRUE"},
			corev1.EnvVar{Name: "MOD_NAME", Value: "handler"},
			corev1.EnvVar{Name: "FUNC_HANDLER", Value: "main"},
		)
	}
	env = append(env, fn.Spec.Env...)
	if code.Source != "" {
		env = append(env, corev1.EnvVar{Name: EnvHandlerSource, Value: code.Source})
	}
	return lastOfEach(env)
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
