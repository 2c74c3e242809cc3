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

// Reason is what changed the replicas.
type Reason string

// What can change the replicas.
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

	// scaling holds one token, taken for a whole poll and for each push. It is
	// a channel and no mutex, so that a wait for it lets virtual time go by.
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
	backoffs    []time.Duration  // waits between streams
	polls       int              // polls that ended
	errs        []error          // errors of polls
	values      []float64        // values that polls saw of the first metric
}

// New makes a ScaledObject that calls over conn.
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

// Run does all that KEDA does for the object until ctx ends.
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

// Replicas is the present number.
func (o *ScaledObject) Replicas() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.replicas
}

// Transitions are all changes of the replicas so far.
func (o *ScaledObject) Transitions() []Transition {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.transitions)
}

// Pushed is how often true was received, and how many of those were dropped.
func (o *ScaledObject) Pushed() (received, dropped int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pushed, o.dropped
}

// Streams is how many push streams were opened, and the waits between them.
func (o *ScaledObject) Streams() (opened int, waits []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.streams, slices.Clone(o.backoffs)
}

// Polls is the number of polls that ended, the values they saw of the first metric and the errors they met.
func (o *ScaledObject) Polls() (ended int, values []float64, errs []error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.polls, slices.Clone(o.values), slices.Clone(o.errs)
}

// Target is what the HPA wants each replica to carry of the first metric; 0 before it has one.
func (o *ScaledObject) Target() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.specs) == 0 {
		return 0
	}
	return number(o.specs[0])
}

// targetOf is that of any metric; 0 when the HPA does not know it.
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

// Await waits until the condition holds. It is checked after each change.
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

// note changes the record and wakes all who wait for a change.
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
