package autoscale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"

	"github.com/rouse-run/rouse/internal/kedarules"
)

// bounds holds the limits of a Function.
type bounds struct {
	kedarules.Bounds

	stabilization time.Duration // time of a smaller backlog before replicas are removed
}

// observation is the result of a poll. A failed one has no metrics.
type observation struct {
	active  bool
	metrics []kedarules.Metric // the backlog comes first
	failed  bool
}

// state is the scaling state of a Function: a plain value without a lock or a clock.
type state struct {
	scale           kedarules.Scale
	holds           int // HTTP requests that keep it awake
	recommendations kedarules.Recommendations
}

// bound limits the replicas to the bounds, without waking a Function that may sleep.
func (s *state) bound(b bounds) {
	s.scale.Replicas = min(max(s.scale.Replicas, b.Min), b.Max)
}

// wake records pending work.
func (s *state) wake(now time.Time, b bounds) {
	s.scale = s.scale.Request(true, false, now, b.Bounds)
}

// hold records a request that keeps the Function awake.
func (s *state) hold(now time.Time, b bounds) {
	s.holds++
	s.wake(now, b)
}

// release records the end of such a request, which counts as activity.
func (s *state) release(now time.Time) {
	s.holds--
	s.scale.LastActive = now
}

// observe decides after a poll, as KEDA does and at once the HPA, for which a cluster waits up to 15 s. The number of added replicas is not
// limited, because the policies in the controller's ScaledObjects allow more than one machine runs. A request that holds the Function
// counts as work while the backlog is unknown.
func (s *state) observe(o observation, now time.Time, b bounds) {
	s.scale = s.scale.Request(o.active || s.holds > 0, o.failed && s.holds == 0, now, b.Bounds)
	if o.failed || s.scale.Replicas == 0 {
		return
	}
	desired := min(kedarules.DesiredByMost(s.scale.Replicas, o.metrics), b.Max)
	s.scale.Replicas = b.Clamp(s.recommendations.Stabilize(s.scale.Replicas, desired, now, b.stabilization))
}

// The metadata of the trigger, as the controller writes it into a ScaledObject.
const (
	keyFunction   = "function"
	keyActivation = "activationLagThreshold"
	keyLag        = "lagThreshold"
)

// object scales one Function, as a ScaledObject does for KEDA.
type object struct {
	autoscaler *Autoscaler
	removed    chan struct{} // closed when the Function is gone
	decided    chan struct{} // signals possible work
	nudged     chan struct{} // requests the next poll at once

	mu      sync.Mutex
	target  Target
	state   state
	backlog int
	known   bool
	last    observation
	problem string // of the last poll
}

func newObject(a *Autoscaler, target Target) *object {
	o := &object{
		autoscaler: a, target: target,
		removed: make(chan struct{}), decided: make(chan struct{}, 1), nudged: make(chan struct{}, 1),
	}
	o.state.bound(o.bounds())
	o.decided <- struct{}{} // the first number is reported too
	return o
}

func (o *object) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	loops.Go(func() { o.act(ctx) })
	loops.Go(func() { o.push(ctx) })
	loops.Go(func() { o.poll(ctx) })
	select {
	case <-ctx.Done():
	case <-o.removed:
		cancel()
	}
	loops.Wait()
}

// act calls scale with the newest decision.
func (o *object) act(ctx context.Context) {
	reported := -1
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.decided:
		}
		o.mu.Lock()
		replicas, name := o.state.scale.Replicas, o.target.Function
		o.mu.Unlock()
		if replicas != reported {
			reported = replicas
			o.autoscaler.scale(name, replicas)
		}
	}
}

// decide changes the state and triggers the resulting action.
func (o *object) decide(change func(s *state, now time.Time, b bounds)) {
	o.mu.Lock()
	change(&o.state, time.Now(), o.bounds())
	o.mu.Unlock()
	note(o.decided)
}

// bounds returns the limits of the Function. The caller holds the lock, or the object is not shared yet.
func (o *object) bounds() bounds {
	return bounds{
		Bounds: kedarules.Bounds{
			Min: o.target.Min, Max: max(o.target.Max, o.target.Min, 1), Cooldown: o.autoscaler.options.Cooldown,
		},
		stabilization: o.autoscaler.options.ScaleDown,
	}
}

func (o *object) setTarget(target Target) {
	o.mu.Lock()
	o.target = target
	o.state.bound(o.bounds())
	o.mu.Unlock()
	note(o.decided)
}

func (o *object) hold() (release func()) {
	o.decide(func(s *state, now time.Time, b bounds) { s.hold(now, b) })
	var once sync.Once
	return func() {
		once.Do(func() { o.decide(func(s *state, now time.Time, _ bounds) { s.release(now) }) })
	}
}

func (o *object) lastBacklog() (int, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.backlog, o.known
}

// keep records the result of a poll for the status.
func (o *object) keep(seen observation, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.problem = seen, ""
	if err != nil {
		o.problem = err.Error()
	}
}

func (o *object) status() kedarules.Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	limits := o.bounds()
	status := kedarules.Status{
		Replicas: o.state.scale.Replicas, Min: limits.Min, Max: limits.Max, CooldownSeconds: int64(limits.Cooldown.Seconds()),
		Active: o.last.active || o.state.holds > 0, Problem: o.problem, Metrics: o.last.metrics,
	}
	if at := o.state.scale.LastActive; !at.IsZero() {
		status.LastActive = &at
	}
	return status
}

func (o *object) setBacklog(value float64) {
	o.mu.Lock()
	changed := !o.known || o.backlog != int(value)
	o.backlog, o.known = int(value), true
	o.mu.Unlock()
	if changed {
		o.autoscaler.announce()
	}
}

// ref returns the reference that KEDA sends with every call.
func (o *object) ref() *pb.ScaledObjectRef {
	o.mu.Lock()
	defer o.mu.Unlock()
	metadata := map[string]string{keyFunction: o.target.Function.Name, keyActivation: "0"}
	if o.target.LagThreshold > 0 {
		metadata[keyLag] = strconv.FormatInt(o.target.LagThreshold, 10)
	}
	return &pb.ScaledObjectRef{
		Name: o.target.Function.Name, Namespace: o.target.Function.Namespace, ScalerMetadata: metadata,
	}
}

// note sends a signal unless one is pending.
func note(notes chan struct{}) {
	select {
	case notes <- struct{}{}:
	default:
	}
}

// pollTimeout bounds a poll, so that a local mode can stop. KEDA sets no such bound.
const pollTimeout = 5 * time.Second

// poll polls at the interval. It finds work that no push reported, and only polls scale a Function to zero.
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
			o.autoscaler.log.V(1).Info("the backlog is unknown", "function", o.target.Function.String(), "reason", err.Error())
		}
		failing = err != nil
		o.keep(seen, err)
		o.decide(func(s *state, now time.Time, b bounds) { s.observe(seen, now, b) })
		timer.Reset(o.autoscaler.options.Polling)
	}
}

// observe makes KEDA's calls: three, and one more for each further metric. An error makes a failed observation.
func (o *object) observe(ctx context.Context) (observation, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	ref := o.ref()
	specs, err := o.autoscaler.client.GetMetricSpec(ctx, ref)
	if err == nil && len(specs.GetMetricSpecs()) == 0 {
		err = errors.New("the scaler returned no metric")
	}
	if err != nil {
		return observation{failed: true}, fmt.Errorf("get the metric specs: %w", err)
	}
	var metrics []kedarules.Metric
	for _, spec := range specs.GetMetricSpecs() {
		value, err := o.value(ctx, ref, spec.GetMetricName())
		if err != nil {
			return observation{failed: true}, fmt.Errorf("get the metric %s: %w", spec.GetMetricName(), err)
		}
		target := kedarules.Number(spec.GetTargetSizeFloat(), spec.GetTargetSize())
		metrics = append(metrics, kedarules.Metric{Name: spec.GetMetricName(), Value: value, Target: target})
	}
	active, err := o.autoscaler.client.IsActive(ctx, ref)
	if err != nil {
		return observation{failed: true}, fmt.Errorf("get the activity: %w", err)
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

const (
	firstBackoff = 100 * time.Millisecond // KEDA starts at 2 s, for a remote scaler
	lastBackoff  = 5 * time.Second
)

// push keeps the stream open on which the scaler wakes Functions. It reconnects after the scaler closes the stream without an error.
func (o *object) push(ctx context.Context) {
	backoff := kedarules.Backoff{First: firstBackoff, Last: lastBackoff}
	for {
		err := o.follow(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Next(errors.Is(err, io.EOF))):
		}
	}
}

// follow reads one stream until it ends. It ignores false, because only polls scale down.
func (o *object) follow(ctx context.Context) error {
	stream, err := o.autoscaler.client.StreamIsActive(ctx, o.ref())
	if err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if response.GetResult() {
			o.decide(func(s *state, now time.Time, b bounds) { s.wake(now, b) })
			note(o.nudged) // a burst may need more than one replica
		}
	}
}
