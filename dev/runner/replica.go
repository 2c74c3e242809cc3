package runner

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
)

// replica is one process of a Function.
type replica struct {
	id      int
	name    string
	launch  toolchain.Launch
	process *process.Process
	stage   stage
	started time.Time
	readyAt time.Time
	fn      manifest.Function // what it runs
	overdue bool              // it was killed because it took too long to start
	ended   string            // why it was killed later; empty when it was not
	silent  string            // that it does not answer; empty while it does
	lines   tail
}

// tail has the last lines of a replica.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == keptLines {
		t.lines = append(t.lines[:0:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, text)
}

func (t *tail) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clip(t.lines)
}

// start adds a replica to a Function, and watches it.
func (f *Functions) start(u *unit, now time.Time) error {
	u.counter++
	r := &replica{id: u.counter, name: fmt.Sprintf("%s-%d", u.name.Name, u.counter), launch: *u.launch, fn: u.launched, started: now}
	s := newStack(r.fn, r.launch)
	traces := map[string]*trace{process.Stdout: s.trace(), process.Stderr: s.trace()} // each read by one goroutine
	started, err := f.deps.Supervisor.Start(
		process.Command{Path: r.launch.Path, Args: r.launch.Args, Env: r.launch.Env, Dir: r.launch.Dir},
		func(stream, text string) {
			if shown, keep := traces[stream].show(text); keep {
				r.lines.add(shown)
				f.logLine(u, r.name, stream, shown)
			}
		})
	if err != nil {
		return err
	}
	r.process = started
	u.replicas = append(u.replicas, r)
	f.running.Go(func() { f.attend(u, r) })
	return nil
}

// attend records when a replica becomes ready and when it ends.
func (f *Functions) attend(u *unit, r *replica) {
	select {
	case <-r.process.Ready():
		f.update(func() { f.becomeReady(u, r) })
		f.watch(u, r)
	case <-r.process.Done():
	}
	<-r.process.Done()
	f.update(func() { f.removeReplica(u, r) })
}

func (f *Functions) becomeReady(u *unit, r *replica) {
	if r.stage != starting {
		return
	}
	r.stage, r.readyAt = ready, time.Now()
	if u.current(r) {
		u.unready, u.crashed = 0, "" // it runs again; how often it crashed counts until it has done so for a while
	}
	if !u.wokenAt.IsZero() {
		u.lastWake, u.wokenAt = r.readyAt.Sub(u.wokenAt), time.Time{}
	}
}

// drain removes a replica from the endpoints, and stops it once all watchers have applied that.
func (f *Functions) drain(u *unit, r *replica) {
	r.stage = draining
	f.version++
	version, allowed := f.version, finishTime(u.launched, u.exclusive())
	f.running.Go(func() {
		f.awaitWatchers(u.name, version)
		r.process.Stop(allowed)
	})
}

// abandon kills a replica that takes too long to start.
func (f *Functions) abandon(r *replica) {
	r.overdue = true
	f.running.Go(func() { r.process.Stop(0) })
}

// logProblem adds the reason why a Function does not run to the feed.
func (f *Functions) logProblem(u *unit, text string) {
	f.deps.Feed.Add(process.Line{Namespace: u.name.Namespace, Function: u.name.Name, Stream: process.Rouse, Text: text, Problem: true})
}

// logLine adds a line to the feed.
func (f *Functions) logLine(u *unit, replica, stream, text string) {
	f.deps.Feed.Add(process.Line{Namespace: u.name.Namespace, Function: u.name.Name, Replica: replica, Stream: stream, Text: text})
}
