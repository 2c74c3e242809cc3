package kedatest

import (
	"context"
	"errors"
	"math"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
)

const (
	firstBackoff = 2 * time.Second
	lastBackoff  = time.Minute
	hpaInterval  = 15 * time.Second
	hpaTolerance = 0.1
)

// reconcile makes the HPA, for which there must be metric specs.
func (o *ScaledObject) reconcile(ctx context.Context) error {
	for backoff := time.Second; ; backoff = min(backoff*2, lastBackoff) {
		if specs, err := o.getSpecs(ctx); err == nil {
			o.note(func() {
				for _, spec := range specs {
					o.metricNames = append(o.metricNames, spec.GetMetricName())
				}
				if o.specs == nil {
					o.specs = specs
				}
			})
			return nil
		}
		if !o.sleep(ctx, backoff) {
			return ctx.Err()
		}
	}
}

func (o *ScaledObject) pollLoop(ctx context.Context) {
	for {
		timer := o.clock.NewTimer(o.options.PollingInterval)
		o.PollOnce(ctx)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// PollOnce is one poll, with the decision that follows it.
func (o *ScaledObject) PollOnce(ctx context.Context) {
	select {
	case o.scaling <- struct{}{}:
		defer func() { <-o.scaling }()
	case <-ctx.Done():
		return
	}
	active, value, err := o.observe(ctx)
	if ctx.Err() != nil {
		return
	}
	o.requestScale(active, err, Poll)
	o.note(func() {
		o.polls++
		if err != nil {
			o.errs = append(o.errs, err)
			return
		}
		o.values = append(o.values, value)
	})
}

// observe asks for the specs, and per metric for its value and the activity.
func (o *ScaledObject) observe(ctx context.Context) (active bool, value float64, err error) {
	specs, err := o.getSpecs(ctx)
	if err != nil {
		return false, 0, err
	}
	for _, spec := range specs {
		metricActive, metricValue, metricErr := o.getMetric(ctx, spec.GetMetricName())
		if metricErr != nil {
			// A new scaler replaces one that failed, and is polled at once.
			metricActive, metricValue, metricErr = o.getMetric(ctx, spec.GetMetricName())
		}
		if metricErr != nil {
			err = errors.Join(err, metricErr)
			continue
		}
		active, value = active || metricActive, metricValue
	}
	return active, value, err
}

func (o *ScaledObject) getSpecs(ctx context.Context) ([]*pb.MetricSpec, error) {
	var lastErr error
	for range 2 {
		response, err := o.client.GetMetricSpec(ctx, o.ref)
		if err == nil && len(response.GetMetricSpecs()) > 0 {
			return response.GetMetricSpecs(), nil
		}
		lastErr = errors.Join(errors.New("got empty metric spec"), err)
	}
	return nil, lastErr
}

func (o *ScaledObject) getMetric(ctx context.Context, name string) (active bool, value float64, err error) {
	metrics, err := o.client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: o.ref, MetricName: name})
	if err != nil {
		return false, 0, err
	}
	for _, metric := range metrics.GetMetricValues() {
		value = float64(metric.GetMetricValue())
		if metric.GetMetricValueFloat() > 0 {
			value = metric.GetMetricValueFloat()
		}
	}
	activity, err := o.client.IsActive(ctx, o.ref)
	if err != nil {
		return false, 0, err
	}
	return activity.GetResult(), value, nil
}

// requestScale is KEDA's part of the decision: between 0 and 1.
func (o *ScaledObject) requestScale(active bool, err error, reason Reason) {
	now := o.clock.Now()
	o.mu.Lock()
	replicas := o.replicas
	cooled := now.After(o.lastActive.Add(o.options.CooldownPeriod))
	if active && err == nil {
		o.lastActive = now
	}
	o.mu.Unlock()
	switch {
	case active && replicas == 0:
		o.scaleTo(1, reason)
	case !active && err == nil && replicas > 0 && cooled:
		o.scaleTo(0, reason)
	}
}

// hpaLoop is the HPA's part: above 1.
func (o *ScaledObject) hpaLoop(ctx context.Context) {
	for o.sleep(ctx, hpaInterval) {
		if o.Replicas() == 0 {
			continue
		}
		_, value, err := o.observe(ctx)
		if err != nil {
			continue
		}
		target, replicas := o.Target(), o.Replicas()
		if target <= 0 || replicas == 0 || math.Abs(1-value/(target*float64(replicas))) <= hpaTolerance {
			continue
		}
		wanted := int(math.Ceil(value / target))
		// The default policy: at most 4 more, or twice as many, per 15 s.
		wanted = min(wanted, max(replicas+4, replicas*2), o.options.MaxReplicas)
		o.scaleTo(max(wanted, 1), HPA)
	}
}

func (o *ScaledObject) scaleTo(replicas int, reason Reason) {
	changed := false
	o.note(func() {
		if changed = o.replicas != replicas; changed {
			o.transitions = append(o.transitions,
				Transition{At: o.clock.Now(), From: o.replicas, To: replicas, Reason: reason})
			o.replicas = replicas
		}
	})
	if changed && o.options.OnReplicas != nil {
		o.options.OnReplicas(replicas)
	}
}

func specTarget(spec *pb.MetricSpec) float64 {
	if spec.GetTargetSizeFloat() > 0 {
		return spec.GetTargetSizeFloat()
	}
	return float64(spec.GetTargetSize())
}
