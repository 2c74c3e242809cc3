package runner

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/runtimes/languages"
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
	overdue bool              // it was killed because it was not ready in time
	ended   string            // why it was killed later; empty otherwise
	silent  string            // the message about missing responses; empty while it responds
	lines   tail
}

// tail holds the last lines of a replica.
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

// start starts a replica of a Function, and watches it.
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
		u.untried, u.unready, u.crashed = false, 0, "" // it runs again; its crashes count until it was up for a while
	}
	if !u.wokenAt.IsZero() {
		u.lastWake, u.wokenAt = r.readyAt.Sub(u.wokenAt), time.Time{}
	}
}

// drain removes a replica from the endpoints, and stops it once all watchers applied the change.
func (f *Functions) drain(u *unit, r *replica) {
	r.stage = draining
	f.version++
	version, allowed := f.version, finishTime(u.launched, u.exclusive())
	f.running.Go(func() {
		f.awaitWatchers(u.name, version)
		r.process.Stop(allowed)
	})
}

// abandon kills a replica that is not ready in time.
func (f *Functions) abandon(r *replica) {
	r.overdue = true
	f.running.Go(func() { r.process.Stop(0) })
}

// logProblem adds the reason that a Function does not run to the feed.
func (f *Functions) logProblem(u *unit, text string) {
	f.deps.Feed.Add(process.Line{Namespace: u.name.Namespace, Function: u.name.Name, Stream: process.Rouse, Text: text, Problem: true})
}

// logLine adds a line to the feed.
func (f *Functions) logLine(u *unit, replica, stream, text string) {
	f.deps.Feed.Add(process.Line{Namespace: u.name.Namespace, Function: u.name.Name, Replica: replica, Stream: stream, Text: text})
}

const (
	// checkInterval is the interval between health checks of a replica.
	checkInterval = time.Second
	// healthPath is served by the runtime's server itself, on the event loop that handlers share.
	healthPath = "/healthz"
	// afterwards delays the kill, so that a delivery reaches its own timeout first.
	afterwards = time.Second
)

// watch kills a replica that does not respond for longer than a call may take, where a handler that loops blocks all others and the
// server's own timers. Other servers watch their workers themselves, and a debugger may stop a replica.
func (f *Functions) watch(u *unit, r *replica) {
	known, err := languages.Of(r.fn.Spec.Runtime)
	if err != nil || !known.Local.Watched || r.launch.DebugAddress != "" {
		return
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		select {
		case <-r.process.Done():
			return
		case <-time.After(checkInterval):
			if !f.awaitAnswer(client, u, r) {
				return
			}
		}
	}
}

// awaitAnswer makes one health check and waits for the response. It returns false when there is nothing left to watch.
func (f *Functions) awaitAnswer(client *http.Client, u *unit, r *replica) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answered := make(chan struct{})
	f.running.Go(func() {
		defer close(answered)
		ask(ctx, client, "http://"+r.process.Address()+healthPath)
	})
	defer func() { <-answered }()
	defer cancel()
	limit := r.fn.Silence() + afterwards
	notice, end := time.NewTimer(f.options.SilentAfter), time.NewTimer(limit)
	defer notice.Stop()
	defer end.Stop()
	for noticed := false; ; {
		select {
		case <-answered:
			if noticed {
				f.update(func() { f.clearSilent(u, r) })
			}
			return true
		case <-r.process.Done():
			return false
		case <-notice.C:
			noticed = true
			f.update(func() { f.markSilent(u, r, f.options.SilentAfter, limit) })
		case <-end.C:
			f.update(func() { f.killSilent(u, r, limit) })
			return false
		}
	}
}

// ask sends a request. It returns when there is a response of any status, or no connection.
func ask(ctx context.Context, client *http.Client, url string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return
	}
	if answer, err := client.Do(request); err == nil {
		_ = answer.Body.Close() // its content does not matter
	}
}

// markSilent reports that a replica does not respond.
func (f *Functions) markSilent(u *unit, r *replica, since, limit time.Duration) {
	if r.stage != ready {
		return
	}
	r.silent = fmt.Sprintf("%s: %s does not answer since %s: handler %s seems to loop; it is ended and replaced after %s",
		u.position(), r.name, since, u.name.Name, limit)
	f.logLine(u, r.name, process.Rouse, r.silent)
}

// clearSilent reports that the replica responds again.
func (f *Functions) clearSilent(u *unit, r *replica) {
	if r.silent == "" {
		return
	}
	r.silent = ""
	f.logLine(u, r.name, process.Rouse, "answers again")
}

// killSilent kills a replica that did not respond for too long. A draining replica has its own timeout.
func (f *Functions) killSilent(u *unit, r *replica, limit time.Duration) {
	if r.stage != ready {
		return
	}
	r.silent = ""
	r.ended = fmt.Sprintf("%s: handler %s did not answer within %s and was ended: it seems to loop", u.position(), u.name.Name, limit)
	f.running.Go(func() { r.process.Stop(0) })
}

// watchTimeout bounds how long a draining replica waits for watchers to apply its removal.
const watchTimeout = 5 * time.Second

// watcher follows the endpoints of a Service.
type watcher struct {
	service types.NamespacedName
	applied uint64 // the version that apply returned from
}

// Watch calls apply with the endpoints of a Function's Service, at once and after each change, one call at a time,
// until ctx ends. A replica is among them from when it is ready until it drains.
func (f *Functions) Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	w := &watcher{service: service}
	f.mu.Lock()
	f.watchers[w] = struct{}{}
	f.mu.Unlock()
	defer f.forget(w)
	var before []routing.Endpoint
	for first := true; ; first = false {
		f.mu.Lock()
		endpoints, version, change := f.endpoints(service, port), f.version, f.change
		f.mu.Unlock()
		if first || !slices.Equal(before, endpoints) {
			apply(slices.Clone(endpoints))
			before = endpoints
		}
		f.note(w, version)
		select {
		case <-ctx.Done():
			return nil
		case <-change:
		}
	}
}

// endpoints returns the ready replicas of a Service. The caller holds the lock.
func (f *Functions) endpoints(service types.NamespacedName, port int32) []routing.Endpoint {
	u := f.units[service]
	if u == nil || port != activation.ServicePort && port != activation.OnlyPortOfService {
		return nil
	}
	var endpoints []routing.Endpoint
	for _, r := range u.replicas {
		if r.serves() {
			endpoints = append(endpoints, routing.Endpoint{Address: r.process.Address(), Ready: true, Function: true})
		}
	}
	return endpoints
}

func (r *replica) serves() bool { return r.stage == ready && !r.givenUp() }

// givenUp reports whether the replica was killed and has not ended yet.
func (r *replica) givenUp() bool { return r.overdue || r.ended != "" }

// note records that a watcher applied a version.
func (f *Functions) note(w *watcher, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.applied != version {
		w.applied = version
		f.announceApplied()
	}
}

func (f *Functions) forget(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
	f.announceApplied()
}

func (f *Functions) announceApplied() {
	close(f.applied)
	f.applied = make(chan struct{})
}

// awaitWatchers returns when all watchers of a Service applied a version, or after watchTimeout.
func (f *Functions) awaitWatchers(service types.NamespacedName, version uint64) {
	timer := time.NewTimer(watchTimeout)
	defer timer.Stop()
	for {
		f.mu.Lock()
		behind, applied := false, f.applied
		for w := range f.watchers {
			behind = behind || (w.service == service && w.applied < version)
		}
		f.mu.Unlock()
		if !behind {
			return
		}
		select {
		case <-applied:
		case <-timer.C:
			return
		case <-f.over:
			return
		}
	}
}
