package kedatest

import (
	"context"
	"errors"
	"io"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rouse-run/rouse/internal/kedarules"
)

// reconcile makes the HPA, which requires metric specs.
func (o *ScaledObject) reconcile(ctx context.Context) error {
	backoff := kedarules.Backoff{First: time.Second, Last: time.Minute}
	for {
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
		if !o.sleep(ctx, backoff.Next(false)) {
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

// PollOnce polls once and applies the decision.
func (o *ScaledObject) PollOnce(ctx context.Context) {
	select {
	case o.scaling <- struct{}{}:
		defer func() { <-o.scaling }()
	case <-ctx.Done():
		return
	}
	active, metrics, err := o.observe(ctx)
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
		o.values = append(o.values, metrics[0].Value)
	})
}

// observe requests the specs, and for each metric its value and activity.
func (o *ScaledObject) observe(ctx context.Context) (active bool, metrics []kedarules.Metric, err error) {
	specs, err := o.getSpecs(ctx)
	if err != nil {
		return false, nil, err
	}
	for _, spec := range specs {
		metricActive, metricValue, metricErr := o.getMetric(ctx, spec.GetMetricName())
		if metricErr != nil {
			// KEDA replaces a failed scaler by a new one, and polls it at once.
			metricActive, metricValue, metricErr = o.getMetric(ctx, spec.GetMetricName())
		}
		if metricErr != nil {
			err = errors.Join(err, metricErr)
			continue
		}
		active = active || metricActive
		metrics = append(metrics, kedarules.Metric{Value: metricValue, Target: o.targetOf(spec.GetMetricName())})
	}
	return active, metrics, err
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
		value = kedarules.Number(metric.GetMetricValueFloat(), metric.GetMetricValue())
	}
	activity, err := o.client.IsActive(ctx, o.ref)
	if err != nil {
		return false, 0, err
	}
	return activity.GetResult(), value, nil
}

// requestScale is KEDA's part of the decision: between 0 and 1.
func (o *ScaledObject) requestScale(active bool, err error, reason Reason) {
	o.scale(reason, func(replicas int) int {
		before := kedarules.Scale{Replicas: replicas, LastActive: o.lastActive}
		after := before.Request(active, err != nil, o.clock.Now(), o.bounds())
		o.lastActive = after.LastActive
		return after.Replicas
	})
}

// bounds returns the bounds of the ScaledObject, which has no minimum.
func (o *ScaledObject) bounds() kedarules.Bounds {
	return kedarules.Bounds{Max: o.options.MaxReplicas, Cooldown: o.options.CooldownPeriod}
}

// hpaLoop is the HPA's part, without a behavior of its own: above 1.
func (o *ScaledObject) hpaLoop(ctx context.Context) {
	var recommendations kedarules.Recommendations
	for o.sleep(ctx, kedarules.HPASyncPeriod) {
		replicas := o.Replicas()
		if replicas == 0 {
			continue
		}
		_, metrics, err := o.observe(ctx)
		if err != nil {
			continue
		}
		desired := kedarules.DesiredByMost(replicas, metrics)
		stable := recommendations.Stabilize(replicas, desired, o.clock.Now(), kedarules.DefaultScaleDownStabilization)
		o.scale(HPA, func(now int) int {
			if now != replicas {
				return now // the HPA's write carries the resource version that it read: an outdated write is rejected
			}
			return o.bounds().Clamp(min(stable, kedarules.ScaleUpLimit(replicas)))
		})
	}
}

// scale sets the replicas to the result of decide for the present number. It calls decide with o.mu held.
func (o *ScaledObject) scale(reason Reason, decide func(replicas int) int) {
	var from, to int
	o.note(func() {
		from = o.replicas
		if to = decide(from); from != to {
			o.transitions = append(o.transitions, Transition{At: o.clock.Now(), From: from, To: to, Reason: reason})
			o.replicas = to
		}
	})
	if from != to && o.options.OnReplicas != nil {
		o.options.OnReplicas(to)
	}
}

func streamBackoff() kedarules.Backoff {
	return kedarules.Backoff{First: kedarules.FirstStreamBackoff, Last: kedarules.LastStreamBackoff}
}

// pushLoop holds the push stream open.
func (o *ScaledObject) pushLoop(ctx context.Context) {
	backoff := streamBackoff()
	for {
		err := o.push(ctx)
		wait := backoff.Next(errors.Is(err, io.EOF))
		if ctx.Err() != nil {
			return
		}
		o.note(func() { o.backoffs = append(o.backoffs, wait) })
		if !o.sleep(ctx, wait) {
			return
		}
	}
}

// push reads one stream until it ends.
func (o *ScaledObject) push(ctx context.Context) error {
	stream, err := o.client.StreamIsActive(ctx, o.ref)
	if err != nil {
		return err
	}
	o.note(func() { o.streams++ })
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if response.GetResult() {
			o.activate(ctx)
		}
	}
}

func (o *ScaledObject) activate(ctx context.Context) {
	o.mu.Lock()
	known := len(o.metricNames) > 0
	o.mu.Unlock()
	if known {
		select {
		case o.scaling <- struct{}{}:
			o.requestScale(true, nil, Push)
			<-o.scaling
		case <-ctx.Done():
			return
		}
	}
	o.note(func() {
		o.pushed++
		if !known {
			o.dropped++
		}
	})
}

// specLoop holds the spec stream open. In contrast to the push stream it restarts with a short delay when it received
// anything.
func (o *ScaledObject) specLoop(ctx context.Context) {
	backoff := streamBackoff()
	for {
		received, err := o.watchSpecs(ctx)
		if status.Code(err) == codes.Unimplemented {
			return
		}
		if !o.sleep(ctx, backoff.Next(received || errors.Is(err, io.EOF))) {
			return
		}
	}
}

func (o *ScaledObject) watchSpecs(ctx context.Context) (received bool, err error) {
	stream, err := o.client.StreamMetricSpec(ctx, o.ref)
	if err != nil {
		return false, err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return received, err
		}
		received = true
		o.note(func() { o.specs = response.GetMetricSpecs() })
	}
}
