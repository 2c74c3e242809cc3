package autoscale

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/kedarules"
)

// Target is a Function to scale.
type Target struct {
	// Function is its name.
	Function types.NamespacedName
	// Min and Max bound its replicas.
	Min, Max int
	// LagThreshold is the target backlog per replica; 0 derives it from the Subscriptions.
	LagThreshold int64
}

// Options set the timing of the decisions.
type Options struct {
	// Cooldown is the time without work after which a Function scales to zero.
	Cooldown time.Duration
	// Polling is the interval between polls.
	Polling time.Duration
	// ScaleDown is the stabilization window before replicas are removed, all but one.
	ScaleDown time.Duration
}

// DefaultOptions returns shorter intervals than a cluster's, because the scaler is in this process and a user watches.
func DefaultOptions() Options {
	return Options{Cooldown: 5 * time.Second, Polling: 500 * time.Millisecond, ScaleDown: 3 * time.Second}
}

// Autoscaler scales the Functions that are applied.
type Autoscaler struct {
	client  pb.ExternalScalerClient
	scale   func(fn types.NamespacedName, replicas int)
	options Options
	log     logr.Logger
	renewed chan struct{} // signals objects to start or to end

	mu      sync.Mutex
	objects map[types.NamespacedName]*object
	changed chan struct{} // closed and replaced when a backlog changes
}

// New returns an Autoscaler that polls over conn. It calls scale for each change of the desired replicas, one call at a time for each
// Function.
func New(
	conn grpc.ClientConnInterface, scale func(fn types.NamespacedName, replicas int), o Options, log logr.Logger,
) *Autoscaler {
	return &Autoscaler{
		client: pb.NewExternalScalerClient(conn), scale: scale, options: o, log: log,
		renewed: make(chan struct{}, 1), objects: map[types.NamespacedName]*object{}, changed: make(chan struct{}),
	}
}

// Apply sets the Functions to scale. Known ones keep their replicas, within the new bounds.
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

// Run polls and scales until ctx ends.
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

// Hold wakes a Function and keeps it awake until release is called.
func (a *Autoscaler) Hold(fn types.NamespacedName) (release func()) {
	a.mu.Lock()
	o := a.objects[fn]
	a.mu.Unlock()
	if o == nil {
		return func() {}
	}
	return o.hold()
}

// Backlog returns the backlog of a Function at the last poll; it is unknown before the first response.
func (a *Autoscaler) Backlog(fn types.NamespacedName) (backlog int, known bool) {
	a.mu.Lock()
	o := a.objects[fn]
	a.mu.Unlock()
	if o == nil {
		return 0, false
	}
	return o.lastBacklog()
}

// Status returns what is known about the scaling of a Function, without its ready replicas. It returns nil for one that is not scaled.
func (a *Autoscaler) Status(fn types.NamespacedName) *kedarules.Status {
	a.mu.Lock()
	o := a.objects[fn]
	a.mu.Unlock()
	if o == nil {
		return nil
	}
	status := o.status()
	return &status
}

// Changed returns a channel that is closed when a backlog changes.
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
