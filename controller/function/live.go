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

// Live holds the settings that Functions are made with. They may change while the controller runs; all later
// reconciliations use the new ones.
type Live struct {
	mu      sync.Mutex
	options Options            // of the command line
	read    *settings.Settings // nil until a file was good
	awaits  bool               // a file is expected

	workers *busyWorkers
	state   atomic.Pointer[liveState]
	changed chan struct{} // signals a change that has not been passed on to the Functions
}

// liveState is a snapshot of the settings that one reconciliation uses.
type liveState struct {
	*resources.Settings

	// former lists previous addresses, the latest first. Pods that have not rolled out yet may use them.
	former []string
	// requeue is the interval at which a Function is reconciled without any change; 0: never.
	requeue time.Duration
	// hang bounds how long all workers may hang; 0: without bound.
	hang time.Duration
	// rollouts bounds the Functions that are awake and roll out at a time.
	rollouts int
	// settled is false while a file is expected. The command line's settings are then no reason to replace pods, which
	// may run with the settings of the file.
	settled bool
}

// NewLive returns the settings of the command line. awaitsFile means that a file will change them.
func NewLive(options Options, awaitsFile bool) *Live {
	l := &Live{
		options: options, awaits: awaitsFile, changed: make(chan struct{}, 1),
		workers: &busyWorkers{all: options.MaxConcurrentReconciles, now: time.Now},
	}
	l.compute()
	return l
}

// Apply makes the settings of a file effective.
func (l *Live) Apply(read *settings.Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = read
	l.compute()
}

// complete takes the options with the values that the controller has chosen, such as the default profile.
func (l *Live) complete(options Options) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.options = options
	l.compute()
}

// Current returns the settings that Functions are made with now.
func (l *Live) Current() *resources.Settings { return l.load().Settings }

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

// formerAddresses returns only the last few: a Function rolls out within minutes.
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

// with returns the options with the values of a file where it sets them.
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

// requeueAfter spreads the requeues over a fifth of the interval.
func (s *liveState) requeueAfter() time.Duration {
	const spread = 0.2
	return time.Duration(float64(s.requeue) * (1 - spread*rand.Float64())) //nolint:gosec // spreads load
}

// shortestHang is how long a reconciliation may take in any case: the API server may be slow.
const shortestHang = time.Minute

// busyWorkers detects when all workers hang: all are busy, and none has started or ended a reconciliation for a while.
type busyWorkers struct {
	all int
	now func() time.Time

	mu       sync.Mutex
	busy     int
	progress time.Time
}

// begin records a reconciliation until end is called.
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

// hang returns how long all workers have been busy without progress, 0 when one is idle.
func (w *busyWorkers) hang() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy < w.all {
		return 0
	}
	return w.now().Sub(w.progress)
}

// Healthy is a health check of the process. It returns an error when the workers of the Function controller hang for
// longer than the settings allow, which is without bound by default.
func (l *Live) Healthy(*http.Request) error {
	most := l.load().hang
	if most <= 0 {
		return nil
	}
	if hang := l.workers.hang(); hang > max(most, shortestHang) {
		return fmt.Errorf("all workers of the Function controller have hung for %s", hang)
	}
	return nil
}
