package runner

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/gateway/activator"
)

// Launcher prepares the command that starts a Function; *toolchain.Toolchain implements it.
type Launcher interface {
	Launch(ctx context.Context, fn manifest.Function, in toolchain.Inputs) (toolchain.Launch, error)
}

// Waker wakes Functions that clients call.
type Waker interface {
	// Hold wakes a Function and keeps it awake until release is called.
	Hold(fn types.NamespacedName) (release func())
}

// Deps holds the dependencies of Functions.
type Deps struct {
	Launcher   Launcher
	Supervisor *process.Supervisor
	Feed       *process.Feed
	// Waker may be nil; requests to a front port then wake no Function.
	Waker Waker
	Log   logr.Logger
}

// Options are the options of Functions. The zero value of each has a default.
type Options struct {
	// FirstPort is the first front port; ports that are taken are skipped. 0 means any free ports.
	FirstPort int
	// Ports is the file with the ports of Functions; empty for none.
	Ports string
	// PublisherAddress and State are passed to the Launcher.
	PublisherAddress, State string
	// Debug reports whether a Function is started for a debugger; nil for none.
	Debug func(fn types.NamespacedName) bool
	// StartWithin bounds how long a Function may take until it is ready, and how long a request waits for it.
	StartWithin time.Duration
	// SilentAfter is the time without a response after which a replica is reported as hung.
	SilentAfter time.Duration
	// Steady is the uptime after which crashes no longer count.
	Steady time.Duration
	// Backoff is the delay after the first crash. It doubles with each crash up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
	// EndWithin bounds the graceful shutdown of Functions when Run ends.
	EndWithin time.Duration
}

func (o Options) withDefaults() Options {
	for _, entry := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&o.StartWithin, time.Minute},
		{&o.SilentAfter, 5 * time.Second},
		{&o.Steady, 10 * time.Second},
		{&o.Backoff, time.Second},
		{&o.MaxBackoff, 30 * time.Second},
		{&o.EndWithin, 1200 * time.Millisecond},
	} {
		if *entry.value == 0 {
			*entry.value = entry.standard
		}
	}
	if o.Debug == nil {
		o.Debug = func(types.NamespacedName) bool { return false }
	}
	return o
}

// Functions runs the Functions of a folder.
type Functions struct {
	deps       Deps
	options    Options
	slots      chan struct{} // limits concurrent preparations
	wake       chan struct{} // signals possible work
	running    sync.WaitGroup
	activators *activator.Activator

	mu       sync.Mutex
	units    map[types.NamespacedName]*unit
	scales   map[types.NamespacedName]int // includes Functions that do not exist yet
	ports    *ports
	inputs   toolchain.Inputs
	begun    bool          // the folder was read: Functions that come from now on were written meanwhile
	over     chan struct{} // closed when Run ends
	change   chan struct{} // closed and replaced at every change
	version  uint64        // of the endpoints
	watchers map[*watcher]struct{}
	applied  chan struct{} // closed and replaced when a watcher applied a version
}

// New returns Functions that do nothing until Run.
func New(deps Deps, options Options) *Functions {
	given, err := readPorts(options.Ports)
	if err != nil {
		deps.Log.Info("front ports are assigned again", "reason", err.Error())
	}
	f := &Functions{
		deps: deps, options: options.withDefaults(),
		slots: make(chan struct{}, preparations), wake: make(chan struct{}, 1),
		units: map[types.NamespacedName]*unit{}, scales: map[types.NamespacedName]int{}, ports: given,
		over: make(chan struct{}), change: make(chan struct{}),
		watchers: map[*watcher]struct{}{}, applied: make(chan struct{}),
	}
	f.activators = newActivators(f)
	return f
}

// update changes the state and triggers the loop.
func (f *Functions) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.announce()
	f.poke()
}

// poke triggers the loop.
func (f *Functions) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// announce notifies those who wait for a change. The caller holds the lock.
func (f *Functions) announce() {
	close(f.change)
	f.change = make(chan struct{})
}

// Apply sets the Functions of the folder. A Function that is not in the set is stopped, unless a problem in its file may be the reason: then
// it stays as it was, and its status has the problem. Failed launches are retried.
func (f *Functions) Apply(set manifest.Set, problems []manifest.Problem) {
	f.update(func() {
		f.inputs = toolchain.Inputs{
			PublisherAddress: f.options.PublisherAddress, State: f.options.State,
			ConfigMaps: set.ConfigMaps, Secrets: set.Secrets,
		}
		wanted := make(map[types.NamespacedName]bool, len(set.Functions))
		for _, spec := range set.Functions {
			name := types.NamespacedName{Namespace: spec.Namespace, Name: spec.Name}
			wanted[name] = true
			f.applyOne(name, spec)
		}
		for name, u := range f.units {
			if wanted[name] || u.removed {
				continue
			}
			u.problem = problemOf(u.name, u.spec.At, problems)
			u.removed = u.problem == ""
			if u.removed && u.preparation.cancel != nil {
				u.preparation.cancel()
			}
			u.setDesired(u.exclusive(), time.Now())
		}
		f.begun = true
	})
}

func (f *Functions) applyOne(name types.NamespacedName, spec manifest.Function) {
	u := f.units[name]
	if u == nil {
		u = &unit{name: name, scaled: -1, untried: f.begun}
		if scaled, ok := f.scales[name]; ok {
			u.scaled = scaled
		}
		f.units[name] = u
	}
	u.removed, u.problem = false, ""
	u.requestPreparation(spec)
	u.setDesired(u.exclusive(), time.Now())
}

// problemOf returns the problem that may be the reason that a Function is no longer in its file.
func problemOf(name types.NamespacedName, at manifest.Position, problems []manifest.Problem) string {
	inFile := ""
	for _, problem := range problems {
		switch {
		case problem.Warning:
		case problem.Object == "Function "+name.String():
			return problem.Error()
		case problem.File == at.File && problem.Object == "" && inFile == "":
			inFile = problem.Error()
		}
	}
	return inFile
}

// Scale sets the replicas of a Function, within its bounds.
func (f *Functions) Scale(fn types.NamespacedName, replicas int) {
	f.update(func() {
		f.scales[fn] = replicas
		if u := f.units[fn]; u != nil {
			u.scaled = replicas
			u.setDesired(u.exclusive(), time.Now())
		}
	})
}

// Status returns the status of all Functions, by name.
func (f *Functions) Status() []Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Status, 0, len(f.units))
	for _, u := range f.sorted() {
		if !u.removed {
			list = append(list, u.status())
		}
	}
	return list
}

func (f *Functions) sorted() []*unit {
	units := make([]*unit, 0, len(f.units))
	for _, u := range f.units {
		units = append(units, u)
	}
	slices.SortFunc(units, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(a.name.Namespace, b.name.Namespace), cmp.Compare(a.name.Name, b.name.Name))
	})
	return units
}

// Changed returns a channel that is closed at the next change.
func (f *Functions) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.change
}

// The phases of a Function.
const (
	Preparing = "preparing" // its source or its dependencies are being fetched
	Asleep    = "asleep"    // no replicas are wanted
	Waking    = "waking"    // replicas are wanted and none is ready yet
	Ready     = "ready"
	Reloading = "reloading" // the previous version serves while the new one starts
	Failing   = "failing"   // it does not start, or it crashes; LastError has the reason
)

// Status is the status of a Function.
type Status struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Runtime   string `json:"runtime"`
	// URL of the front port, which wakes the Function.
	URL   string `json:"url"`
	Phase string `json:"phase"`
	// LastError is the reason that the newest version does not run, summarized in its first line; empty when
	// it runs.
	LastError string `json:"lastError,omitempty"`
	// Older reports that an older version answers, because the newest does not run for the reason in LastError.
	Older bool `json:"older,omitempty"`
	// Unprepared reports that there is no version to start: its source, a reference or a dependency is missing.
	Unprepared bool `json:"-"`
	// FailedStarts counts how often in a row the newest version ended before it was ready.
	FailedStarts int `json:"-"`
	// Doing is what its preparation waits for, Since when; empty for nothing.
	Doing string    `json:"doing,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Debug is the address for a debugger, host:port; empty without one.
	Debug   string `json:"debug,omitempty"`
	Desired int    `json:"desired"`
	Ready   int    `json:"ready"`
	// Wakes counts its cold starts, Restarts its crashes.
	Wakes    int `json:"wakes"`
	Restarts int `json:"restarts"`
	// LastWake is the duration of the last cold start until a replica was ready.
	LastWake time.Duration     `json:"lastWake"`
	At       manifest.Position `json:"at"`
}

// outlook holds the inputs of phaseOf.
type outlook struct {
	desired           int
	current, old      int // replicas that are ready
	prepared, blocked bool
	failures          int
}

// phaseOf returns the phase of a Function. A Function whose newest version does not run is failing, also while an older version serves.
func phaseOf(o outlook) string {
	switch {
	case o.blocked:
		return Failing
	case !o.prepared:
		return Preparing
	case o.desired == 0:
		return Asleep
	case o.current > 0:
		return Ready
	case o.failures > 0:
		return Failing
	case o.old > 0:
		return Reloading
	default:
		return Waking
	}
}
