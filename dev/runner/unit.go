package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
)

// unit is a Function with its replicas. Functions.mu guards it.
type unit struct {
	name    types.NamespacedName
	spec    manifest.Function
	removed bool
	problem string // why its file does not run
	scaled  int    // -1 before it was scaled

	preparation preparation
	launch      *toolchain.Launch // of the desired version
	launched    manifest.Function // what it was prepared from
	unprepared  string            // why there is no newer one
	refused     manifest.Function // which could not be prepared
	untried     bool              // the desired version has to be loaded once, also while the Function sleeps

	failures int // crashes of the desired version in a row
	unready  int // those of them before it was ready, if none was ready since
	crashed  string
	retryAt  time.Time

	replicas []*replica
	counter  int
	desired  int

	wakes, restarts int
	wokenAt         time.Time // zero unless it is waking
	lastWake        time.Duration

	front     *front
	frontless string // why there is no front port
}

// setDesired updates the desired replicas, and records a wake.
func (u *unit) setDesired(exclusive bool, now time.Time) {
	before := u.desired
	u.desired = 0
	if !u.removed {
		u.desired = desiredReplicas(u.spec, u.scaled, exclusive)
	}
	switch {
	case before == 0 && u.desired > 0 && u.scaled >= 0:
		u.wakes++
		u.wokenAt = now
	case u.desired == 0:
		u.wokenAt = time.Time{}
	}
}

func (u *unit) current(r *replica) bool {
	return u.launch != nil && r.launch.Identity == u.launch.Identity
}

func (u *unit) replica(id int) *replica {
	return u.replicas[slices.IndexFunc(u.replicas, func(r *replica) bool { return r.id == id })]
}

func (u *unit) exclusive() bool { return u.launch != nil && u.launch.DebugAddress != "" }

// settle resets the crash count once a replica of the desired version was up for Options.Steady.
func (f *Functions) settle(u *unit, now time.Time) (recheckAt time.Time) {
	if u.failures == 0 {
		return time.Time{}
	}
	for _, r := range u.replicas {
		if r.stage != ready || !u.current(r) {
			continue
		}
		end := r.readyAt.Add(f.options.Steady)
		if !now.Before(end) {
			u.resetFailures()
			f.announce()
			return time.Time{}
		}
		if recheckAt.IsZero() || end.Before(recheckAt) {
			recheckAt = end
		}
	}
	return recheckAt
}

func (u *unit) resetFailures() { u.failures, u.unready, u.crashed, u.retryAt = 0, 0, "", time.Time{} }

func (u *unit) view(now time.Time, startWithin time.Duration) view {
	v := view{
		now: now, desired: u.wanted(), prepared: u.launch != nil, exclusive: u.exclusive(),
		failures: u.failures, retryAt: u.retryAt, startWithin: startWithin,
	}
	for _, r := range u.replicas {
		seen := replicaView{id: r.id, current: u.current(r), stage: r.stage, started: r.started}
		if r.givenUp() { // it counts as starting until its end counts as a failure
			seen.stage, seen.started = starting, now
		}
		v.replicas = append(v.replicas, seen)
	}
	return v
}

// wanted returns the replicas to run: the desired ones, or one that loads a changed version.
func (u *unit) wanted() int {
	if u.untried && !u.removed {
		return max(u.desired, 1)
	}
	return u.desired
}

// fail records that the desired version did not start, or crashed.
func (f *Functions) fail(u *unit, text string) {
	u.failures++
	u.untried = false
	wait := backoff(u.failures, f.options.Backoff, f.options.MaxBackoff)
	u.crashed, u.retryAt = text, time.Now().Add(wait)
	next := fmt.Sprintf("it is started again in %s", wait)
	switch {
	case u.desired == 0:
		next = "it is started again when it is woken or changed"
	case u.older() != "":
		next += ", and the version before answers"
	}
	f.logProblem(u, firstLine(text)+"; "+next)
}

// older returns why the newest version does not answer, in one line, if an older one does.
func (u *unit) older() string {
	if text := cmp.Or(u.problem, u.unprepared); text != "" && u.launch != nil {
		return firstLine(text)
	}
	before := false
	for _, r := range u.replicas {
		if r.serves() && u.current(r) {
			return ""
		}
		before = before || r.serves()
	}
	if !before {
		return ""
	}
	return firstLine(u.crashed)
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// removeReplica removes a replica that ended, and records the reason.
func (f *Functions) removeReplica(u *unit, r *replica) {
	u.replicas = slices.DeleteFunc(u.replicas, func(other *replica) bool { return other == r })
	f.version++
	switch {
	case r.stage == draining:
		return
	case !u.current(r):
		u.restarts++
		f.logLine(u, r.name, process.Rouse, "the version before ended by itself")
	case r.overdue:
		u.restarts++
		u.unready++
		f.fail(u, fmt.Sprintf("%s: it was not ready within %s: its code loops or waits where it should only define the handler",
			u.position(), f.options.StartWithin))
	case r.ended != "":
		u.restarts++
		f.fail(u, r.ended)
	default:
		u.restarts++
		if r.stage == starting {
			u.unready++
		}
		how := "exit status 0"
		if err := r.process.Err(); err != nil {
			how = err.Error()
		}
		f.fail(u, crash{fn: u.launched, how: how, lines: r.lines.all()}.describe())
	}
}

// position returns the position in the user's file that messages refer to.
func (u *unit) position() manifest.Position {
	if u.spec.Source.Line > 0 {
		return u.spec.Source
	}
	return u.spec.At
}

// lastError returns the reason that the newest version does not run; empty when it runs.
func (u *unit) lastError() string {
	for _, text := range []string{u.problem, u.unprepared, u.crashed, u.frontless} {
		if text != "" {
			return text
		}
	}
	for _, r := range u.replicas {
		if r.silent != "" {
			return r.silent
		}
	}
	return ""
}

func (u *unit) status() Status {
	s := Status{
		Namespace: u.name.Namespace, Name: u.name.Name, Runtime: string(u.spec.Spec.Runtime),
		LastError: u.lastError(), Unprepared: u.hopeless(), FailedStarts: u.unready, Desired: u.desired,
		Wakes: u.wakes, Restarts: u.restarts, LastWake: u.lastWake, At: u.spec.At,
	}
	if u.preparation.doing != "" {
		s.Doing, s.Since = u.preparation.doing, u.preparation.since
	}
	if u.front != nil {
		s.URL = u.front.url()
	}
	if u.launch != nil {
		s.Debug = u.launch.DebugAddress
	}
	o := outlook{
		desired: u.desired, prepared: u.launch != nil, failures: u.failures,
		blocked: u.problem != "" || u.unprepared != "",
	}
	for _, r := range u.replicas {
		switch {
		case r.stage != ready || r.givenUp():
		case u.current(r):
			o.current++
		default:
			o.old++
		}
	}
	s.Ready, s.Phase, s.Older = o.current+o.old, phaseOf(o), u.older() != ""
	return s
}

// preparations bounds how many Functions are prepared concurrently.
const preparations = 4

// preparation is the preparation of a Function's Launch.
type preparation struct {
	due    bool
	cancel context.CancelFunc // of the running preparation; nil without one
	doing  string             // what it waits for
	since  time.Time
}

// requestPreparation requests the preparation of a spec. It cancels one that runs for an older spec.
func (u *unit) requestPreparation(spec manifest.Function) {
	if u.preparation.cancel != nil && !reflect.DeepEqual(u.spec, spec) {
		u.preparation.cancel()
	}
	u.spec = spec
	u.preparation.due = true
}

// prepare starts the preparation that is due, unless one runs.
func (f *Functions) prepare(ctx context.Context, u *unit) {
	if !u.preparation.due || u.preparation.cancel != nil || u.removed {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	u.preparation = preparation{cancel: cancel}
	spec, inputs := u.spec, f.inputs
	inputs.Debug = f.options.Debug(u.name)
	f.running.Go(func() {
		launch, err := f.launch(ctx, spec, inputs)
		stale := ctx.Err() != nil
		cancel()
		f.update(func() {
			u.preparation.cancel = nil
			if !stale {
				f.prepared(u, spec, launch, err)
			}
		})
	})
}

func (f *Functions) launch(ctx context.Context, spec manifest.Function, in toolchain.Inputs) (toolchain.Launch, error) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
		return f.deps.Launcher.Launch(ctx, spec, in)
	case <-ctx.Done():
		return toolchain.Launch{}, ctx.Err()
	}
}

// Doing records what the preparation of a Function waits for, empty for nothing.
func (f *Functions) Doing(fn types.NamespacedName, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.units[fn]
	if u == nil || u.preparation.doing == text {
		return
	}
	u.preparation.doing, u.preparation.since = text, time.Now()
	f.announce()
}

// prepared handles the result. A version that cannot be prepared leaves the previous one running.
func (f *Functions) prepared(u *unit, spec manifest.Function, launch toolchain.Launch, err error) {
	if err != nil {
		text := placed(u.spec.At, err.Error())
		var failure *toolchain.Failure
		if errors.As(err, &failure) && failure.Log != "" {
			text += "\n" + strings.TrimSpace(failure.Log)
		}
		if u.unprepared == text && reflect.DeepEqual(u.refused, spec) {
			return // each read of the folder retries, and the error is the same
		}
		u.unprepared, u.refused = text, spec
		for line := range strings.SplitSeq(text, "\n") {
			f.logProblem(u, line)
		}
		if u.launch != nil {
			f.logProblem(u, "the version before goes on answering")
		}
		return
	}
	switch {
	case u.launch == nil:
		u.untried = u.untried || u.unprepared != "" // somebody has mended it
	case u.launch.Identity != launch.Identity:
		u.untried = true
		f.logLine(u, "", process.Rouse, "changed")
	}
	u.launch, u.launched, u.unprepared = &launch, spec, ""
	u.resetFailures() // the cause of the crashes may be gone
	u.setDesired(u.exclusive(), time.Now())
}
