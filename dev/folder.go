package dev

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/dev/autoscale"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/internal/workload"
)

const (
	functionKind     = "Function"
	defaultNamespace = "default"
)

// folder hands what the files say to those who act on it.
type folder struct {
	directory string // absolute
	shown     string // as the user named it
	reader    *manifest.Reader
	functions *runner.Functions
	subs      *subscriptionWorkers
	apiRules  *APIRules
	scaling   *autoscale.Autoscaler
	debug     debugged
	source    *source
	logLine   func(text string)
	changed   chan struct{} // a note that files have changed

	mu      sync.Mutex
	targets map[types.NamespacedName]autoscale.Target
	empty   bool          // it was reported that there is no Function
	again   chan struct{} // closed at the next reading
}

// watch reads the folder again whenever a file changes.
func (f *folder) watch(ctx context.Context) error {
	return together(ctx,
		func(ctx context.Context) error {
			return manifest.Watch(ctx, f.shown, func() {
				select {
				case f.changed <- struct{}{}:
				default:
				}
			})
		},
		func(ctx context.Context) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-f.changed:
				}
				if err := f.read(ctx); err != nil {
					f.logLine(fmt.Sprintf("the folder cannot be read, and what runs goes on: %s", err))
				}
			}
		},
	)
}

// read applies what is in the folder now.
func (f *folder) read(context.Context) error {
	set, problems, err := f.reader.Read(f.shown)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.targets = targetsOf(set, problems, f.targets, f.debug)
	targets := make([]autoscale.Target, 0, len(f.targets))
	for _, target := range f.targets {
		targets = append(targets, target)
	}
	f.mu.Unlock()
	f.subs.Apply(set, problems)
	f.scaling.Apply(targets)
	f.functions.Apply(set, problems)
	f.apiRules.Apply(set, problems)
	f.source.setProblems(append(slices.Clone(problems), f.missing(set, problems)...))
	f.renew(len(targets) == 0 && len(problems) == 0)
	return nil
}

// targetsOf lists how Functions scale. One that cannot be read just now scales as it did.
func targetsOf(
	set manifest.Set, problems []manifest.Problem, before map[types.NamespacedName]autoscale.Target, debug debugged,
) map[types.NamespacedName]autoscale.Target {
	targets := map[types.NamespacedName]autoscale.Target{}
	for name, target := range before {
		if slices.ContainsFunc(problems, func(p manifest.Problem) bool { return p.Concerns(functionKind, name.Namespace, name.Name) }) {
			targets[name] = target
		}
	}
	for _, fn := range set.Functions {
		name := types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}
		low, high := bounds(fn)
		tuning, _ := workload.TuningOf(fn.Annotations, workload.Tuning{}) // what is wrong was reported with its line
		if debug.has(name) {
			low, high = 1, 1 // a debugger is attached to one process, and that shall stay
		}
		targets[name] = autoscale.Target{Function: name, Min: int(low), Max: int(high), LagThreshold: tuning.LagThreshold}
	}
	return targets
}

// bounds are the same without a scaleConfig: such a Function is followed for its backlog alone.
func bounds(fn manifest.Function) (low, high int32) {
	if fn.Spec.ScaleConfig == nil {
		fixed := ptr.Deref(fn.Spec.Replicas, 1)
		return fixed, fixed
	}
	return workload.ReplicaBounds(fn.Function)
}

// missing are warnings about what is named and not there.
func (f *folder) missing(set manifest.Set, problems []manifest.Problem) []manifest.Problem {
	var found []manifest.Problem
	for name := range f.debug {
		known := slices.ContainsFunc(set.Functions, func(fn manifest.Function) bool { return name == fn.Name || name == fn.Namespace+"/"+fn.Name })
		if !known && len(problems) == 0 {
			found = append(found, manifest.Problem{
				Position: manifest.Position{File: f.shown}, Object: functionKind + " " + name,
				Message: "it is named with --debug and is not there; there are " + namesOf(set), Warning: true,
			})
		}
	}
	return found
}

func namesOf(set manifest.Set) string {
	if len(set.Functions) == 0 {
		return "none"
	}
	names := make([]string, 0, len(set.Functions))
	for _, fn := range set.Functions {
		names = append(names, fn.Namespace+"/"+fn.Name)
	}
	return strings.Join(names, ", ")
}

// renew signals that the folder was read, and reports once that there is nothing in it.
func (f *folder) renew(empty bool) {
	f.mu.Lock()
	news := empty && !f.empty
	f.empty = empty
	if f.again != nil {
		close(f.again)
	}
	f.again = make(chan struct{})
	f.mu.Unlock()
	if news {
		f.logLine(fmt.Sprintf("there is no Function in %s: write one with rouse init, or name another folder; files that come are read at once", f.shown))
	}
}

// renewed is closed at the next reading.
func (f *folder) renewed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.again
}

// namespace is what commands mean that name none: that of all Functions, if they share one.
func (f *folder) namespace() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := ""
	for name := range f.targets {
		if found != "" && found != name.Namespace {
			return defaultNamespace
		}
		found = name.Namespace
	}
	if found == "" {
		return defaultNamespace
	}
	return found
}
