package autoscale

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"

	"github.com/rouse-run/rouse/internal/kedarules"
)

// pollTimeout bounds a poll. KEDA sets no bound, and our scaler needs none; a local mode shall stop nevertheless.
const pollTimeout = 5 * time.Second

// poll asks every now and then, which finds what a push did not, and is all that lets a Function sleep.
func (o *object) poll(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-o.nudged:
		}
		seen, err := o.observe(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			o.autoscaler.log.V(1).Info("the backlog is not known", "function", o.target.Function.String(), "reason", err.Error())
		}
		failing = err != nil
		o.decide(func(s *state, now time.Time, b bounds) { s.observe(seen, now, b) })
		timer.Reset(o.autoscaler.options.Polling)
	}
}

// observe makes KEDA's three calls. What could not be learned is a failed observation.
func (o *object) observe(ctx context.Context) (observation, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	ref := o.ref()
	specs, err := o.autoscaler.client.GetMetricSpec(ctx, ref)
	if err == nil && len(specs.GetMetricSpecs()) == 0 {
		err = errors.New("the scaler names no metric")
	}
	if err != nil {
		return observation{failed: true}, fmt.Errorf("ask for the metric: %w", err)
	}
	spec := specs.GetMetricSpecs()[0]
	metrics, err := o.autoscaler.client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: spec.GetMetricName()})
	if err != nil {
		return observation{failed: true}, fmt.Errorf("ask for the backlog: %w", err)
	}
	active, err := o.autoscaler.client.IsActive(ctx, ref)
	if err != nil {
		return observation{failed: true}, fmt.Errorf("ask for the activity: %w", err)
	}
	seen := observation{active: active.GetResult(), target: kedarules.Number(spec.GetTargetSizeFloat(), spec.GetTargetSize())}
	for _, value := range metrics.GetMetricValues() {
		seen.value = kedarules.Number(value.GetMetricValueFloat(), value.GetMetricValue())
	}
	o.setBacklog(seen.value)
	return seen, nil
}
