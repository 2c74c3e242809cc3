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

// Waker keeps a Function awake while a client calls it.
type Waker interface {
	// Hold keeps it awake until release is called.
	Hold(fn types.NamespacedName) (release func())
}

// Deps are what Functions work with.
type Deps struct {
	Launcher   Launcher
	Supervisor *process.Supervisor
	Feed       *process.Feed
	// Waker may be nil: then requests to a front port wake no Function.
	Waker Waker
	Log   logr.Logger
}

// Options of Functions. The zero value of each has a default.
type Options struct {
	// FirstPort is where front ports begin. Those that are taken are skipped. Any free ports, when it is 0.
	FirstPort int
	// Ports is the file that remembers which Function has which port; empty: none does.
	Ports string
	// PublisherAddress and State are handed to the Launcher.
	PublisherAddress, State string
	// Debug reports whether a Function is started for a debugger; nil: none is.
	Debug func(fn types.NamespacedName) bool
	// StartWithin is how long a Function may take until it is ready, and a request waits for that.
	StartWithin time.Duration
	// SilentAfter is how long a replica gives no answer until that is reported.
	SilentAfter time.Duration
	// Steady is how long a Function has to run until its crashes are forgotten.
	Steady time.Duration
	// Backoff is how long it waits after its first crash. It doubles with each up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
	// EndWithin is how long Functions may go on when Run ends.
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
	slots      chan struct{} // one for each preparation that may run
	wake       chan struct{} // a note that there may be something to do
	running    sync.WaitGroup
	activators *activator.Activators

	mu       sync.Mutex
	units    map[types.NamespacedName]*unit
	scales   map[types.NamespacedName]int // also of Functions that come later
	ports    *ports
	inputs   toolchain.Inputs
	over     chan struct{} // closed when Run ends
	change   chan struct{} // closed and replaced with every change
	version  uint64        // of the endpoints
	watchers map[*watcher]struct{}
	applied  chan struct{} // closed and replaced when a watcher has applied a version
}

// New makes Functions that do nothing until Run.
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

// update changes something and has the loop check it.
func (f *Functions) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.announce()
	f.poke()
}

// poke has the loop check everything.
func (f *Functions) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// announce is called with the lock held.
func (f *Functions) announce() {
	close(f.change)
	f.change = make(chan struct{})
}

// Apply sets what the folder asks for now. A Function that is not in the set is stopped, unless a problem in its
// file may be why: then it goes on as it was, and its status has the problem. Launches that failed are retried.
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
	})
}

func (f *Functions) applyOne(name types.NamespacedName, spec manifest.Function) {
	u := f.units[name]
	if u == nil {
		u = &unit{name: name, scaled: -1}
		if scaled, ok := f.scales[name]; ok {
			u.scaled = scaled
		}
		f.units[name] = u
	}
	u.removed, u.problem = false, ""
	u.requestPreparation(spec)
	u.setDesired(u.exclusive(), time.Now())
}

// problemOf is what may be why a Function is no longer in its file.
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

// Scale sets how many replicas a Function that scales has, within its bounds.
func (f *Functions) Scale(fn types.NamespacedName, replicas int) {
	f.update(func() {
		f.scales[fn] = replicas
		if u := f.units[fn]; u != nil {
			u.scaled = replicas
			u.setDesired(u.exclusive(), time.Now())
		}
	})
}

// Status lists all Functions by name.
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

// Changed is closed when something has changed since the call.
func (f *Functions) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.change
}

// Phases of a Function.
const (
	Preparing = "preparing" // its dependencies or its source are being fetched
	Asleep    = "asleep"    // no replicas are wanted
	Waking    = "waking"    // replicas are wanted and none is ready yet
	Ready     = "ready"
	Reloading = "reloading" // the version before serves while the new one starts
	Failing   = "failing"   // it does not start, or it ends by itself; LastError has the reason
)

// Status is what is known of a Function.
type Status struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Runtime   string `json:"runtime"`
	// URL of the front port, which wakes the Function.
	URL   string `json:"url"`
	Phase string `json:"phase"`
	// LastError is why the newest version does not run, its first line being the whole of it in short; empty when
	// it runs.
	LastError string `json:"lastError,omitempty"`
	// Unprepared is set when there is nothing to start: its source, a reference or a dependency is missing.
	Unprepared bool `json:"-"`
	// FailedStarts is how often in a row the newest version ended before it was ready.
	FailedStarts int `json:"-"`
	// Doing is what its preparation waits for now, Since when; empty for nothing.
	Doing string    `json:"doing,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Debug is where a debugger connects, host:port; empty without one.
	Debug   string `json:"debug,omitempty"`
	Desired int    `json:"desired"`
	Ready   int    `json:"ready"`
	// Wakes counts how often it went from no replicas to some, Restarts how often it ended by itself.
	Wakes    int `json:"wakes"`
	Restarts int `json:"restarts"`
	// LastWake is how long the last wake took until a replica was ready.
	LastWake time.Duration     `json:"lastWake"`
	At       manifest.Position `json:"at"`
}

// outlook is what the phase of a Function depends on.
type outlook struct {
	desired           int
	current, old      int // replicas that are ready
	prepared, blocked bool
	failures          int
}

// phaseOf is the phase of a Function. One that cannot be brought up to date is failing, also while an older
// version serves.
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
