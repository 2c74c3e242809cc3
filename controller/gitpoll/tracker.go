package gitpoll

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/internal/git"
)

// Lister asks a repository for references.
type Lister interface {
	List(ctx context.Context, repository git.Repository, references ...string) (git.References, error)
}

// Want is what a Function needs to know.
type Want struct {
	URL, Reference string
	Credentials    git.Credentials
	// Nonce asks for a check at once whenever it changes.
	Nonce string
}

// Finding is the answer: a commit or an error, which is a *git.Error where the repository said something.
type Finding struct {
	Commit string
	Err    error
}

func (f Finding) same(other Finding) bool {
	if (f.Err == nil) != (other.Err == nil) || f.Commit != other.Commit {
		return false
	}
	return f.Err == nil || f.Err.Error() == other.Err.Error()
}

// Tracker follows repositories. It runs where the controllers run: on the leader.
type Tracker struct {
	lister   Lister
	interval time.Duration
	metrics  *metrics
	events   chan event.GenericEvent
	wake     chan struct{}

	mu           sync.Mutex
	repositories map[string]*tracked
	functions    map[types.NamespacedName]*interest
}

// tracked is a repository with one set of credentials.
type tracked struct {
	key        string
	repository git.Repository
	functions  map[types.NamespacedName]*interest
	due        time.Time
	busy       bool
	again      bool // a Function asked for a check while one was under way
	last       attempts
}

// interest is that of one Function.
type interest struct {
	repository string
	want       Want
	found      *Finding // nil until the first check
}

// NewTracker makes a Tracker that does nothing until Start.
func NewTracker(lister Lister, registry prometheus.Registerer, options Options) *Tracker {
	return &Tracker{
		lister: lister, interval: options.CheckInterval, metrics: newMetrics(registry),
		events: make(chan event.GenericEvent), wake: make(chan struct{}, 1),
		repositories: map[string]*tracked{}, functions: map[types.NamespacedName]*interest{},
	}
}

// SetInterval changes how often repositories are asked. Those that would wait for longer are asked within the new interval.
func (t *Tracker) SetInterval(interval time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if interval == t.interval {
		return
	}
	t.interval = interval
	now := time.Now()
	for _, repository := range t.repositories {
		next := now.Add(nextCheck(interval, repository.last, rand.Float64())) //nolint:gosec // spreads load
		if repository.due.After(next) {
			repository.due = next
		}
	}
	t.rouse()
}

// Events carries the Functions whose answers have changed.
func (t *Tracker) Events() <-chan event.GenericEvent { return t.events }

// Commit notes what a Function wants and returns what is known; false before the first check.
func (t *Tracker) Commit(function types.NamespacedName, want Want) (Finding, bool) {
	if git.IsCommit(want.Reference) {
		t.Forget(function)
		return Finding{Commit: want.Reference}, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := want.URL + " " + want.Credentials.Fingerprint()
	known := t.functions[function]
	if known != nil && known.repository != key {
		t.forget(function)
		known = nil
	}
	switch {
	case known == nil:
		known = &interest{repository: key, want: want}
		t.functions[function] = known
		t.ask(key, want).functions[function] = known
	case known.want.Reference != want.Reference:
		known.want, known.found = want, nil
		t.ask(key, want)
	case known.want.Nonce != want.Nonce:
		known.want = want
		t.ask(key, want)
	}
	if known.found == nil {
		return Finding{}, false
	}
	return *known.found, true
}

// Forget ends the interest of a Function.
func (t *Tracker) Forget(function types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(function)
}

func (t *Tracker) forget(function types.NamespacedName) {
	known := t.functions[function]
	if known == nil {
		return
	}
	delete(t.functions, function)
	repository := t.repositories[known.repository]
	delete(repository.functions, function)
	t.tidy(repository)
}

// tidy drops a repository without Functions, once its check has ended: a Function that wants it again meanwhile must not
// start a second one.
func (t *Tracker) tidy(repository *tracked) {
	if len(repository.functions) == 0 && !repository.busy {
		delete(t.repositories, repository.key)
	}
}

// ask makes a repository due at once.
func (t *Tracker) ask(key string, want Want) *tracked {
	repository := t.repositories[key]
	if repository == nil {
		repository = &tracked{
			key: key, repository: git.Repository{URL: want.URL, Credentials: want.Credentials}, functions: map[types.NamespacedName]*interest{},
		}
		t.repositories[key] = repository
	}
	repository.due, repository.again = time.Time{}, repository.busy
	t.rouse()
	return repository
}

func (t *Tracker) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (t *Tracker) NeedLeaderElection() bool { return true }

// Start asks repositories when they are due until ctx ends.
func (t *Tracker) Start(ctx context.Context) error {
	var checks sync.WaitGroup
	defer checks.Wait()
	slots := make(chan struct{}, maxChecks)
	for {
		ready, wait := t.due(time.Now())
		for _, repository := range ready {
			checks.Go(func() {
				select {
				case slots <- struct{}{}:
					defer func() { <-slots }()
					t.check(ctx, repository)
				case <-ctx.Done():
				}
			})
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-t.wake:
			timer.Stop()
		}
	}
}

// due returns the repositories whose time has come, and how long until the next one's.
func (t *Tracker) due(now time.Time) (ready []*tracked, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait = t.interval
	for _, repository := range t.repositories {
		switch {
		case repository.busy:
		case !repository.due.After(now):
			repository.busy = true
			ready = append(ready, repository)
		default:
			wait = min(wait, repository.due.Sub(now))
		}
	}
	return ready, wait
}

func (t *Tracker) check(ctx context.Context, repository *tracked) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	started := time.Now()
	references, err := t.lister.List(limited, repository.repository, t.wanted(repository)...)
	cancel()
	if ctx.Err() != nil {
		return
	}
	took := time.Since(started)
	t.metrics.observe(err, took)
	for _, function := range t.settle(repository, references, err, took) {
		select {
		case t.events <- event.GenericEvent{Object: named(function)}:
		case <-ctx.Done():
			return
		}
	}
}

// wanted are the references in which Functions are interested.
func (t *Tracker) wanted(repository *tracked) (references []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range repository.functions {
		references = append(references, known.want.Reference)
	}
	return references
}

// settle notes what a check found and returns the Functions for which it is news.
func (t *Tracker) settle(
	repository *tracked, references git.References, err error, took time.Duration,
) (news []types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.rouse() // to plan the next one
	if err == nil {
		repository.last = attempts{}
	} else {
		repository.last = attempts{failures: repository.last.failures + 1, transient: git.IsTransient(err), took: took}
	}
	repository.due = time.Now().Add(nextCheck(t.interval, repository.last, rand.Float64())) //nolint:gosec // spreads load
	if repository.again {
		repository.due = time.Time{}
	}
	repository.busy, repository.again = false, false
	t.tidy(repository)
	for function, known := range repository.functions {
		found := Finding{Err: err}
		if err == nil {
			found.Commit, found.Err = references.Resolve(known.want.Reference)
		}
		if known.found == nil || !known.found.same(found) {
			news = append(news, function)
		}
		known.found = &found
	}
	return news
}
