package function

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/settings"
)

// Live are the settings that Functions are made by. They may change while the controller runs, and all that is done from then on follows.
type Live struct {
	mu      sync.Mutex
	options Options            // of the command line
	read    *settings.Settings // nil until a file was good
	awaits  bool               // there is to be a file

	workers *busyWorkers
	state   atomic.Pointer[liveState]
	changed chan struct{} // holds one change that Functions have not heard of
}

// liveState is what one reconciliation works with.
type liveState struct {
	*resources.Settings

	// former are addresses of before, the last ones first. Pods that have not followed yet may have them.
	former []string
	// requeue is how often a Function is looked at again without any change; 0: never.
	requeue time.Duration
	// hang is for how long all workers may hang; 0: for ever.
	hang time.Duration
	// rollouts is how many Functions that are awake may follow at a time.
	rollouts int
	// settled is false while a file is to come. What the command line says is then no reason to replace pods: those that run may
	// have the settings of the file.
	settled bool
}

// NewLive are the settings of the command line, which a file is to change where awaitsFile is true.
func NewLive(options Options, awaitsFile bool) *Live {
	l := &Live{
		options: options, awaits: awaitsFile, changed: make(chan struct{}, 1),
		workers: &busyWorkers{all: options.MaxConcurrentReconciles, now: time.Now},
	}
	l.compute()
	return l
}

// Apply puts the settings of a file in force.
func (l *Live) Apply(read *settings.Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = read
	l.compute()
}

// complete takes the options with what the controller has chosen by itself, as the default profile.
func (l *Live) complete(options Options) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.options = options
	l.compute()
}

func (l *Live) load() *liveState { return l.state.Load() }

func (l *Live) compute() {
	options, profiles := l.options, map[string]corev1.ResourceRequirements(nil)
	next := &liveState{settled: !l.awaits || l.read != nil, rollouts: options.MaxRollouts}
	if l.read != nil {
		options, profiles = options.with(l.read), l.read.Profiles
		next.requeue, next.hang = l.read.ReadyRequeue, l.read.LivenessTimeout
		if l.read.MaxRollouts > 0 {
			next.rollouts = l.read.MaxRollouts
		}
	}
	next.Settings = options.settings()
	next.Profiles = profiles
	if previous := l.state.Load(); previous != nil {
		next.former = formerAddresses(previous, next.Settings)
	}
	l.state.Store(next)
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// formerAddresses are no more than the last few: a Function follows within minutes.
func formerAddresses(previous *liveState, now *resources.Settings) []string {
	const most = 4
	var former []string
	for _, address := range slices.Concat([]string{previous.PublisherAddress, previous.TraceCollectorEndpoint}, previous.former) {
		if address != "" && address != now.PublisherAddress && address != now.TraceCollectorEndpoint && !slices.Contains(former, address) {
			former = append(former, address)
		}
	}
	return former[:min(len(former), most)]
}

// with are the options where a file says something else.
func (o Options) with(read *settings.Settings) Options {
	setTo(&o.PublisherAddress, read.PublisherAddress)
	setTo(&o.DefaultProfile, read.DefaultProfile)
	setTo(&o.PollingInterval, read.PollingInterval)
	setPointer(&o.TraceCollectorEndpoint, read.TraceCollector)
	setPointer(&o.CooldownPeriod, read.CooldownPeriod)
	setPointer(&o.InitialCooldownPeriod, read.InitialCooldownPeriod)
	setPointer(&o.ScaleDownStabilization, read.ScaleDownStabilization)
	return o
}

func setTo[T comparable](value *T, to T) {
	var none T
	if to != none {
		*value = to
	}
}

func setPointer[T any](value, to *T) {
	if to != nil {
		*value = *to
	}
}

// requeueAfter spreads the times over a fifth of the interval.
func (s *liveState) requeueAfter() time.Duration {
	const spread = 0.2
	return time.Duration(float64(s.requeue) * (1 - spread*rand.Float64())) //nolint:gosec // spreads load
}

// shortestHang is what a reconciliation may take at any rate: the API server may be slow.
const shortestHang = time.Minute

// busyWorkers notice when all of them hang: none has begun or ended anything for a while, and all are busy.
type busyWorkers struct {
	all int
	now func() time.Time

	mu       sync.Mutex
	busy     int
	progress time.Time
}

// begin notes a reconciliation, until its end.
func (w *busyWorkers) begin() (end func()) {
	w.note(1)
	return func() { w.note(-1) }
}

func (w *busyWorkers) note(change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy += change
	w.progress = w.now()
}

// hang is for how long all workers have been busy with the same, 0 when one is not.
func (w *busyWorkers) hang() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy < w.all {
		return 0
	}
	return w.now().Sub(w.progress)
}

// Healthy is a check of the process: an error means that the workers of the Function controller hang for longer than the settings allow,
// which is for ever where they say nothing.
func (l *Live) Healthy(*http.Request) error {
	most := l.load().hang
	if most <= 0 {
		return nil
	}
	if hang := l.workers.hang(); hang > max(most, shortestHang) {
		return fmt.Errorf("all workers of the Function controller hang for %s", hang)
	}
	return nil
}
