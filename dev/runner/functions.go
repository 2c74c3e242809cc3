package runner

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/gateway/activator"
)

// Functions runs the Functions of a folder.
type Functions struct {
	deps       Deps
	options    Options
	slots      chan struct{} // one for each preparation that may run
	wake       chan struct{} // a note that there may be something to do
	running    sync.WaitGroup
	activators *activator.Activator

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
