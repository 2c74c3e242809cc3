package dev

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/dev/autoscale"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/eventschema"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/workload"
)

const (
	functionKind     = "Function"
	defaultNamespace = "default"
)

// folder distributes the objects of the folder to the parts that run them.
type folder struct {
	directory string // absolute
	shown     string // as the user wrote it
	reader    *manifest.Reader
	functions *runner.Functions
	subs      *subscriptionWorkers
	began     time.Time
	schedules *listed[*rousev1alpha1.Schedule]
	doors     *listed[door.Known]
	apiRules  *APIRules
	scaling   *autoscale.Autoscaler
	debug     debugged
	source    *source
	schemas   *eventschema.Current
	logLine   func(text string)
	changed   chan struct{} // signals that files have changed

	mu      sync.Mutex
	targets map[types.NamespacedName]autoscale.Target
	last    []manifest.Function // as they were last read
	empty   bool                // whether the absence of Functions was reported
	again   chan struct{}       // closed at the next read
}

// watch reads the folder again after each change of a file.
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

// read reads and applies the folder.
func (f *folder) read(context.Context) error {
	set, problems, err := f.reader.Read(f.shown)
	if err != nil {
		return err
	}
	problems = append(problems, f.readSchemas()...)
	f.mu.Lock()
	f.last = set.Functions
	f.targets = targetsOf(set, problems, f.targets, f.debug)
	targets := make([]autoscale.Target, 0, len(f.targets))
	for _, target := range f.targets {
		targets = append(targets, target)
	}
	f.mu.Unlock()
	f.subs.Apply(set, problems)
	f.schedules.set(schedulesOf(set, f.began))
	f.doors.set(doorsOf(set))
	f.scaling.Apply(targets)
	f.functions.Apply(set, problems)
	f.apiRules.Apply(set, problems)
	f.source.setProblems(append(slices.Clone(problems), f.missing(set, problems)...))
	f.renew(len(targets) == 0 && len(problems) == 0)
	return nil
}

// readSchemas puts the schemas of events in force. One that cannot be used is a problem, and its type may have any data.
func (f *folder) readSchemas() []manifest.Problem {
	set, wrong, err := eventschema.ReadFolder(os.DirFS(f.directory))
	if err != nil {
		return []manifest.Problem{{Position: manifest.Position{File: f.shown}, Message: "schemas of events cannot be read: " + err.Error()}}
	}
	f.schemas.Use(set)
	problems := make([]manifest.Problem, 0, len(wrong))
	for _, file := range slices.Sorted(maps.Keys(wrong)) {
		problems = append(problems, manifest.Problem{
			Position: manifest.Position{File: filepath.Join(f.shown, filepath.FromSlash(file))}, Message: wrong[file].Error(),
			Remedy: "correct it; until then its type may have any data",
		})
	}
	return problems
}

// targetsOf returns how Functions scale. A Function that cannot be read scales as before.
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
		tuning, _ := workload.TuningOf(fn.Annotations, workload.Tuning{}) // problems were reported with their lines
		if debug.has(name) {
			low, high = 1, 1 // a debugger is attached to one process, which has to stay
		}
		targets[name] = autoscale.Target{Function: name, Min: int(low), Max: int(high), LagThreshold: tuning.LagThreshold}
	}
	return targets
}

// bounds returns the replicas that a Function may have. They are equal without a scaleConfig: only the backlog is read then.
func bounds(fn manifest.Function) (low, high int32) {
	if fn.Spec.ScaleConfig == nil {
		fixed := ptr.Deref(fn.Spec.Replicas, 1)
		return fixed, fixed
	}
	return workload.ReplicaBounds(fn.Function)
}

// missing returns warnings about references to objects that do not exist.
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
	for _, each := range set.Doors {
		if name := door.SecretName(each.Door); name != "" && set.DoorKeys(each.Door) == nil {
			problem := each.Problem("spec", "Secret "+name+" is not in the folder: requests are not taken",
				"add it to secrets.local.yaml, which is for this machine alone")
			problem.Warning = true
			found = append(found, problem)
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

// renew signals that the folder was read, and reports once that it contains no Function.
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

// renewed returns a channel that is closed at the next read.
func (f *folder) renewed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.again
}

// namespace returns the default namespace of commands: the one that all Functions share, if they do.
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

// kind is the kind of the objects in Problems.
const kind = "Subscription"

// bridgeTimeout is the delivery timeout of the eventbridge.
const bridgeTimeout = 190 * time.Second

// entry is a desired Subscription.
type entry struct {
	route routing.Route
	spec  eventingv1alpha2.SubscriptionSpec
}

// wanted is the desired state in the folder.
type wanted struct {
	entries  map[types.NamespacedName]entry
	problems []manifest.Problem
	interest routing.Interest
}

// want returns the desired state in a set. A Subscription that cannot be read any more stays as it was before.
func want(set manifest.Set, problems []manifest.Problem, before map[types.NamespacedName]entry) wanted {
	w := wanted{entries: map[types.NamespacedName]entry{}, problems: problems}
	for key, known := range before {
		if w.doubtful(key) {
			w.entries[key] = known
		}
	}
	silences := map[types.NamespacedName]time.Duration{}
	for _, fn := range set.Functions {
		if fn.Timeout() > 0 {
			silences[types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}] = fn.Silence()
		}
	}
	for _, sub := range set.Subscriptions {
		route := sub.Route
		route.Delivery.Timeout = answerWithin(route, silences[route.Service])
		w.entries[sub.Route.Subscription] = entry{route: route, spec: sub.Spec}
	}
	w.interest = routing.InterestOf(w.specs())
	return w
}

// answerWithin returns the timeout of a delivery. A Function with a timeout of its own that has not responded by then is about to be
// killed, and the delivery has to fail with a timeout. 0 means the default of the eventbridge, which is a little longer than any Function
// without a timeout may take.
func answerWithin(route routing.Route, silence time.Duration) time.Duration {
	if silence == 0 || silence >= bridgeTimeout || (route.Delivery.Timeout > 0 && route.Delivery.Timeout < silence) {
		return route.Delivery.Timeout
	}
	return silence
}

// doubtful reports whether a Subscription may be in the folder although it was not read.
func (w wanted) doubtful(key types.NamespacedName) bool {
	return slices.ContainsFunc(w.problems, func(p manifest.Problem) bool { return p.Concerns(kind, key.Namespace, key.Name) })
}

// strays returns the consumers that no Subscription needs any more.
func (w wanted) strays(consumers []broker.Consumer, deadLetters bool) []broker.Consumer {
	var found []broker.Consumer
	for _, consumer := range consumers {
		key, ours := broker.SubscriptionOf(consumer)
		known, served := w.entries[key]
		needed := served && (!deadLetters || known.route.DeadLetters != nil) || !served && w.doubtful(key)
		if ours && !needed {
			found = append(found, consumer)
		}
	}
	return found
}

// consumers returns the consumers that a new stream needs before its first event.
func (w wanted) consumers(context.Context) ([]broker.Consumer, error) {
	consumers := make([]broker.Consumer, 0, len(w.entries))
	for _, e := range w.entries {
		consumers = append(consumers, broker.ConsumerOf(e.route))
	}
	return consumers, nil
}

// specs returns all specs, by name.
func (w wanted) specs() []eventingv1alpha2.SubscriptionSpec {
	specs := make([]eventingv1alpha2.SubscriptionSpec, 0, len(w.entries))
	for _, e := range w.sorted() {
		specs = append(specs, e.spec)
	}
	return specs
}

// sorted returns the entries by name.
func (w wanted) sorted() []entry {
	return slices.SortedFunc(maps.Values(w.entries), func(a, b entry) int {
		return cmp.Compare(a.route.Subscription.String(), b.route.Subscription.String())
	})
}
