package autoscale

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
)

// Target is one Function.
type Target struct {
	// Function names it.
	Function types.NamespacedName
	// Min and Max are how many replicas it may have.
	Min, Max int
	// LagThreshold is the backlog that one replica is meant to carry; 0 leaves that to its Subscriptions.
	LagThreshold int64
}

// Options pace the decisions.
type Options struct {
	// Cooldown is how long a Function stays awake without work.
	Cooldown time.Duration
	// Polling is the pause between polls.
	Polling time.Duration
	// ScaleDown is how long a backlog has to be small before all replicas but one may go.
	ScaleDown time.Duration
}

// DefaultOptions are quicker than a cluster's, because the scaler is near and a user watches.
func DefaultOptions() Options {
	return Options{Cooldown: 5 * time.Second, Polling: 500 * time.Millisecond, ScaleDown: 3 * time.Second}
}

// Autoscaler scales the Functions that are applied.
type Autoscaler struct {
	client  pb.ExternalScalerClient
	scale   func(fn types.NamespacedName, replicas int)
	options Options
	log     logr.Logger
	renewed chan struct{} // a note that there are objects to start or to end

	mu      sync.Mutex
	objects map[types.NamespacedName]*object
	changed chan struct{} // closed and replaced when a backlog has changed
}

// New makes an Autoscaler that polls over conn. It calls scale whenever a Function shall have another number of replicas,
// one call at a time for each.
func New(
	conn grpc.ClientConnInterface, scale func(fn types.NamespacedName, replicas int), o Options, log logr.Logger,
) *Autoscaler {
	return &Autoscaler{
		client: pb.NewExternalScalerClient(conn), scale: scale, options: o, log: log,
		renewed: make(chan struct{}, 1), objects: map[types.NamespacedName]*object{}, changed: make(chan struct{}),
	}
}

// Apply sets which Functions there are. Those that were there before keep their replicas, within their new bounds.
func (a *Autoscaler) Apply(targets []Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := make(map[types.NamespacedName]bool, len(targets))
	for _, target := range targets {
		wanted[target.Function] = true
		if known := a.objects[target.Function]; known != nil {
			known.setTarget(target)
			continue
		}
		a.objects[target.Function] = newObject(a, target)
	}
	for name, known := range a.objects {
		if !wanted[name] {
			close(known.removed)
			delete(a.objects, name)
		}
	}
	select {
	case a.renewed <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (a *Autoscaler) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	started := map[*object]bool{}
	for {
		for _, o := range a.all() {
			if !started[o] {
				started[o] = true
				running.Go(func() { o.run(ctx) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.renewed:
		}
	}
}

func (a *Autoscaler) all() []*object {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*object, 0, len(a.objects))
	for _, o := range a.objects {
		all = append(all, o)
	}
	return all
}

// Hold keeps a Function awake until release is called, and wakes it when it sleeps.
func (a *Autoscaler) Hold(fn types.NamespacedName) (release func()) {
	a.mu.Lock()
	o := a.objects[fn]
	a.mu.Unlock()
	if o == nil {
		return func() {}
	}
	return o.hold()
}

// Backlog is how much waited for a Function at the last poll; it is not known before the first answer.
func (a *Autoscaler) Backlog(fn types.NamespacedName) (backlog int, known bool) {
	a.mu.Lock()
	o := a.objects[fn]
	a.mu.Unlock()
	if o == nil {
		return 0, false
	}
	return o.lastBacklog()
}

// Changed is closed when a backlog is another than when Changed was called.
func (a *Autoscaler) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

func (a *Autoscaler) announce() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.changed = make(chan struct{})
}
