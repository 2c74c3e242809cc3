package resources

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

const (
	// Port is where the runtimes listen.
	Port = 8080
	// HealthPath answers 200 once the handler is loaded.
	HealthPath = "/healthz"
)

// readinessProbe finds a new pod ready within a second. There is no startup
// probe: the kubelet tries one once a second only, counted from before the
// container runs, and would not check readiness before it has passed, whereas
// readiness is checked as soon as the container runs.
func readinessProbe() *corev1ac.ProbeApplyConfiguration {
	return probe().
		WithPeriodSeconds(1).
		WithTimeoutSeconds(2).
		WithSuccessThreshold(1).
		WithFailureThreshold(3)
}

// livenessProbe gives a handler 150 seconds to load, and restarts one that
// hangs later within 15 seconds.
func livenessProbe() *corev1ac.ProbeApplyConfiguration {
	return probe().
		WithInitialDelaySeconds(135).
		WithPeriodSeconds(5).
		WithTimeoutSeconds(4).
		WithSuccessThreshold(1).
		WithFailureThreshold(3)
}

func probe() *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().
		WithPath(HealthPath).WithPort(intstr.FromInt32(Port)))
}
