package kedatest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/rouse-run/rouse/internal/kedarules"
)

// Options describes a ScaledObject with one external-push trigger.
type Options struct {
	// Name and Namespace are the ScaledObject's.
	Name, Namespace string
	// Metadata is the trigger's.
	Metadata map[string]string
	// PollingInterval is 30 s when zero.
	PollingInterval time.Duration
	// CooldownPeriod is 300 s when zero.
	CooldownPeriod time.Duration
	// MaxReplicas is 100 when zero.
	MaxReplicas int
	// Replicas is the number of replicas at the start.
	Replicas int
	// OnReplicas, when set, is called with each new number. It must not block.
	OnReplicas func(replicas int)
	// Clock is the real one when nil.
	Clock clock.WithDelayedExecution
}

// Reason is the cause of a change of replicas.
type Reason string

// The causes.
const (
	Push Reason = "push"
	Poll Reason = "poll"
	HPA  Reason = "hpa"
)

// Transition is one change of the replicas.
type Transition struct {
	At       time.Time
	From, To int
	Reason   Reason
}

// ScaledObject is one object that KEDA scales. Its methods may be called from
// any goroutine.
type ScaledObject struct {
	options Options
	clock   clock.WithDelayedExecution
	client  pb.ExternalScalerClient
	ref     *pb.ScaledObjectRef

	// scaling holds one token, taken for a whole poll and for each push. It is a channel rather than a mutex, so that a
	// wait for it lets virtual time advance.
	scaling chan struct{}

	mu          sync.Mutex
	changed     chan struct{}
	replicas    int
	lastActive  time.Time
	transitions []Transition
	metricNames []string
	specs       []*pb.MetricSpec // from the stream; nil before
	pushed      int              // true received
	dropped     int              // true received and dropped
	streams     int              // StreamIsActive opened
	backoffs    []time.Duration  // delays between streams
	polls       int              // completed polls
	errs        []error          // errors of polls
	values      []float64        // polled values of the first metric
}

// New returns a ScaledObject that calls over conn.
func New(conn grpc.ClientConnInterface, options Options) *ScaledObject {
	options.PollingInterval = cmp.Or(options.PollingInterval, kedarules.DefaultPollingInterval)
	options.CooldownPeriod = cmp.Or(options.CooldownPeriod, kedarules.DefaultCooldownPeriod)
	options.MaxReplicas = cmp.Or(options.MaxReplicas, kedarules.DefaultMaxReplicas)
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &ScaledObject{
		options:  options,
		clock:    options.Clock,
		client:   pb.NewExternalScalerClient(conn),
		ref:      &pb.ScaledObjectRef{Name: options.Name, Namespace: options.Namespace, ScalerMetadata: options.Metadata},
		scaling:  make(chan struct{}, 1),
		changed:  make(chan struct{}),
		replicas: options.Replicas,
	}
}

// Run acts as KEDA for the object until ctx ends.
func (o *ScaledObject) Run(ctx context.Context) error {
	if err := o.reconcile(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range []func(context.Context){o.pollLoop, o.hpaLoop, o.pushLoop, o.specLoop} {
		group.Go(func() error {
			loop(ctx)
			return nil
		})
	}
	return group.Wait()
}

// Replicas returns the present number.
func (o *ScaledObject) Replicas() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.replicas
}

// Transitions returns all changes of the replicas so far.
func (o *ScaledObject) Transitions() []Transition {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.transitions)
}

// Pushed returns how often true was received, and how many of those were dropped.
func (o *ScaledObject) Pushed() (received, dropped int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pushed, o.dropped
}

// Streams returns the number of push streams that were opened, and the delays between them.
func (o *ScaledObject) Streams() (opened int, waits []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.streams, slices.Clone(o.backoffs)
}

// Polls returns the number of completed polls, the values of the first metric and the errors.
func (o *ScaledObject) Polls() (ended int, values []float64, errs []error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.polls, slices.Clone(o.values), slices.Clone(o.errs)
}

// Target returns the HPA's target per replica of the first metric, or 0 before it has one.
func (o *ScaledObject) Target() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.specs) == 0 {
		return 0
	}
	return number(o.specs[0])
}

// targetOf returns the target of a metric, or 0 when the HPA does not have it.
func (o *ScaledObject) targetOf(metric string) float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, spec := range o.specs {
		if spec.GetMetricName() == metric {
			return number(spec)
		}
	}
	return 0
}

func number(spec *pb.MetricSpec) float64 {
	return kedarules.Number(spec.GetTargetSizeFloat(), spec.GetTargetSize())
}

// Await waits until the condition holds. The condition is checked after each change.
func (o *ScaledObject) Await(ctx context.Context, holds func(*ScaledObject) bool) error {
	for {
		o.mu.Lock()
		changed := o.changed
		o.mu.Unlock()
		if holds(o) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(errors.New("condition did not come to hold"), ctx.Err())
		}
	}
}

// note changes the record and notifies all waiters.
func (o *ScaledObject) note(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	close(o.changed)
	o.changed = make(chan struct{})
}

// sleep returns false when ctx ends first.
func (o *ScaledObject) sleep(ctx context.Context, d time.Duration) bool {
	timer := o.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
