package resources

import (
	"math"
	"strconv"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

const (
	// envTimeout is how many seconds a call of the handler may take.
	envTimeout = "FUNC_TIMEOUT"
	// leaveSeconds is how long a terminating pod goes on as before.
	// Until every node has taken it out of the Service, requests still arrive,
	// and one that meets a closed port fails.
	leaveSeconds = 3
	// finishSeconds is how long busy requests may take after that, and
	// maxFinishSeconds the same for a Function with a longer FUNC_TIMEOUT: a pod
	// that hangs must not hold its node for ever.
	finishSeconds    = 30
	maxFinishSeconds = 600
)

// lifecycle delays the end of a pod, and never its start.
func lifecycle() *corev1ac.LifecycleApplyConfiguration {
	return corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
		WithSleep(corev1ac.SleepAction().WithSeconds(leaveSeconds)))
}

// gracePeriod is the time in seconds from the order to end to the kill.
func gracePeriod(fn *v1alpha2.Function) int64 {
	finish := float64(finishSeconds)
	for _, variable := range fn.Spec.Env {
		if variable.Name != envTimeout {
			continue
		}
		finish = finishSeconds // the last of a name wins
		if timeout, err := strconv.ParseFloat(variable.Value, 64); err == nil && timeout > finishSeconds {
			finish = min(math.Ceil(timeout), maxFinishSeconds)
		}
	}
	return leaveSeconds + int64(finish)
}
