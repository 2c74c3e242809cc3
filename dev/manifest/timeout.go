package manifest

import (
	"math"
	"strconv"
	"time"
)

const (
	envTimeout = "FUNC_TIMEOUT"
	// defaultTimeout is the runtimes', and maxTimeout what is believed.
	defaultTimeout = 180 * time.Second
	maxTimeout     = 24 * time.Hour
	// silenceGrace is how much longer than a call may take a server may be silent: it answers for handlers that do not.
	silenceGrace = 10 * time.Second
)

// Timeout of a call in seconds, as in FUNC_TIMEOUT; 0 when that makes no sense.
func (f Function) Timeout() time.Duration {
	found := time.Duration(0)
	for i := range f.Spec.Env {
		if f.Spec.Env[i].Name != envTimeout {
			continue
		}
		found = 0 // the last of a name wins
		if seconds, err := strconv.ParseFloat(f.Spec.Env[i].Value, 64); err == nil && seconds > 0 {
			found = time.Duration(math.Min(seconds, maxTimeout.Seconds()) * float64(time.Second))
		}
	}
	return found
}

// Silence is how long the Function's server may give no answer at all: longer, and something keeps it from answering.
func (f Function) Silence() time.Duration {
	if timeout := f.Timeout(); timeout > 0 {
		return timeout + silenceGrace
	}
	return defaultTimeout + silenceGrace
}
