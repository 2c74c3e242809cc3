package autoscale

import (
	"context"
	"strconv"
	"sync"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"

	"github.com/rouse-run/rouse/internal/kedarules"
)

// Metadata of the trigger, which the controller writes into a ScaledObject.
const (
	keyFunction   = "function"
	keyActivation = "activationLagThreshold"
	keyLag        = "lagThreshold"
)

// object is one Function that is scaled: what a ScaledObject is to KEDA.
type object struct {
	autoscaler *Autoscaler
	removed    chan struct{} // closed when the Function is gone
	decided    chan struct{} // a note that there may be something to do
	nudged     chan struct{} // a note that the next poll shall not wait

	mu      sync.Mutex
	target  Target
	state   state
	backlog int
	known   bool
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

// act reports the newest decision.
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

// decide changes the state, and has what comes of it done.
func (o *object) decide(change func(s *state, now time.Time, b bounds)) {
	o.mu.Lock()
	change(&o.state, time.Now(), o.bounds())
	o.mu.Unlock()
	note(o.decided)
}

// bounds is called with the lock held, or before the object is shared.
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

func (o *object) setBacklog(value float64) {
	o.mu.Lock()
	changed := !o.known || o.backlog != int(value)
	o.backlog, o.known = int(value), true
	o.mu.Unlock()
	if changed {
		o.autoscaler.announce()
	}
}

// ref is what KEDA hands over with every call.
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

// note leaves a note unless there is one.
func note(notes chan struct{}) {
	select {
	case notes <- struct{}{}:
	default:
	}
}
