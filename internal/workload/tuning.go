package workload

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// What holds for every Function that does not say otherwise.
const (
	// DefaultHTTPConcurrency is how many HTTP requests at a time one replica is meant for.
	DefaultHTTPConcurrency = 50
	// DefaultHTTPWaitSeconds is how long an HTTP request may wait for a pod.
	DefaultHTTPWaitSeconds = 60
)

// Tuning is what a Function's annotations may change about its scaling.
type Tuning struct {
	// PollingSeconds is KEDA's pollingInterval.
	PollingSeconds int64
	// CooldownSeconds is KEDA's cooldownPeriod.
	CooldownSeconds int64
	// LagThreshold is the backlog for each replica. The scaler, which knows the
	// Function's Subscriptions, decides when it is 0.
	LagThreshold int64
	// HTTPConcurrency is how many HTTP requests at a time one replica is meant for.
	HTTPConcurrency int64
	// HTTPWaitSeconds is how long an HTTP request may wait for a pod.
	HTTPWaitSeconds int64
	// HTTPWake is true unless the Function opts out of being woken by HTTP.
	HTTPWake bool
}

// AnnotationError is what is wrong with the value of an annotation.
type AnnotationError struct {
	// Key of the annotation.
	Key string
	// Text says all of it, the key included.
	Text string
}

func (e AnnotationError) Error() string { return e.Text }

// TuningOf reads a Function's tuning annotations on top of the defaults, of
// which those of HTTP are the same everywhere. The error names every annotation
// that is wrong.
func TuningOf(annotations map[string]string, defaults Tuning) (Tuning, error) {
	tuning, wrong := readTuning(annotations, defaults)
	problems := make([]error, len(wrong))
	for i := range wrong {
		problems[i] = wrong[i]
	}
	return tuning, errors.Join(problems...)
}

// TuningErrors are the tuning annotations that are wrong.
func TuningErrors(annotations map[string]string) []AnnotationError {
	_, wrong := readTuning(annotations, Tuning{})
	return wrong
}

func readTuning(annotations map[string]string, defaults Tuning) (tuning Tuning, wrong []AnnotationError) {
	tuning = defaults
	tuning.HTTPConcurrency, tuning.HTTPWaitSeconds, tuning.HTTPWake = DefaultHTTPConcurrency, DefaultHTTPWaitSeconds, true
	for _, entry := range []struct {
		key      string
		low, top int64
		target   *int64
	}{
		{v1alpha2.AnnotationPollingInterval, 1, 86400, &tuning.PollingSeconds},
		{v1alpha2.AnnotationCooldownPeriod, 0, 604800, &tuning.CooldownSeconds},
		{v1alpha2.AnnotationLagThreshold, 1, 1000000, &tuning.LagThreshold},
		{v1alpha2.AnnotationHTTPConcurrency, 1, 1000000, &tuning.HTTPConcurrency},
		{v1alpha2.AnnotationHTTPWait, 1, 3600, &tuning.HTTPWaitSeconds},
	} {
		text, ok := annotations[entry.key]
		if !ok {
			continue
		}
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil || value < entry.low || value > entry.top {
			wrong = append(wrong, AnnotationError{Key: entry.key, Text: fmt.Sprintf(
				"annotation %s: invalid value %q: must be a whole number from %d to %d", entry.key, text, entry.low, entry.top)})
			continue
		}
		*entry.target = value
	}
	const key = v1alpha2.AnnotationHTTPWake
	switch text, ok := annotations[key]; {
	case !ok, text == v1alpha2.HTTPWakeEnabled:
	case text == v1alpha2.HTTPWakeDisabled:
		tuning.HTTPWake = false
	default:
		wrong = append(wrong, AnnotationError{Key: key, Text: fmt.Sprintf("annotation %s: invalid value %q: must be %s or %s",
			key, text, v1alpha2.HTTPWakeEnabled, v1alpha2.HTTPWakeDisabled)})
	}
	return tuning, wrong
}
