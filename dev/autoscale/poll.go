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

// observe makes KEDA's calls: three, and one more for each further metric. What could not be learned is a failed observation.
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
	var metrics []kedarules.Metric
	for _, spec := range specs.GetMetricSpecs() {
		value, err := o.value(ctx, ref, spec.GetMetricName())
		if err != nil {
			return observation{failed: true}, fmt.Errorf("ask for %s: %w", spec.GetMetricName(), err)
		}
		target := kedarules.Number(spec.GetTargetSizeFloat(), spec.GetTargetSize())
		metrics = append(metrics, kedarules.Metric{Value: value, Target: target})
	}
	active, err := o.autoscaler.client.IsActive(ctx, ref)
	if err != nil {
		return observation{failed: true}, fmt.Errorf("ask for the activity: %w", err)
	}
	o.setBacklog(metrics[0].Value)
	return observation{active: active.GetResult(), metrics: metrics}, nil
}

func (o *object) value(ctx context.Context, ref *pb.ScaledObjectRef, metric string) (value float64, err error) {
	answer, err := o.autoscaler.client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: metric})
	for _, each := range answer.GetMetricValues() {
		value = kedarules.Number(each.GetMetricValueFloat(), each.GetMetricValue())
	}
	return value, err
}
