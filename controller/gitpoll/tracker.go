package gitpoll

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/git"
)

// Options configures a Tracker.
type Options struct {
	// CheckInterval is how often a repository is polled.
	CheckInterval time.Duration
}

// DefaultOptions returns the settings of an installation that sets none.
func DefaultOptions() Options { return Options{CheckInterval: 30 * time.Second} }

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Duration(&o.CheckInterval, "git-check-interval",
		"how often a Git repository is asked whether its branches have moved").Between(5*time.Second, 24*time.Hour)
}

// Lister lists the references of a repository.
type Lister interface {
	List(ctx context.Context, repository git.Repository, references ...string) (git.References, error)
}

// Want is the reference that a Function follows.
type Want struct {
	URL, Reference string
	Credentials    git.Credentials
	// Nonce requests an immediate check whenever it changes.
	Nonce string
}

// Finding is a commit or an error, which is a *git.Error where the repository answered.
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

// Tracker polls repositories. It runs on the leader, like the controllers.
type Tracker struct {
	lister   Lister
	interval time.Duration
	metrics  *metrics
	places   *fair.Pool // slots for checks, by namespace
	events   chan event.GenericEvent
	wake     chan struct{}

	mu           sync.Mutex
	repositories map[string]*tracked
	credentials  map[string]*lent // by fingerprint
	functions    map[types.NamespacedName]*interest
	queue        queue
	unwanted     map[*tracked]struct{} // without Functions, until tidy drops them
}

// tracked is a repository with one set of credentials.
type tracked struct {
	key        string
	repository git.Repository
	functions  map[types.NamespacedName]*interest
	spots      map[string]*spot // by namespace
	due        time.Time
	started    time.Time // start of the last check
	busy       bool
	again      time.Duration // delay between the starts of the running check and of another one that was requested meanwhile; 0: none
	last       attempts
}

// lent are credentials shared by several repositories, so that a key is decrypted once.
type lent struct {
	git.Credentials

	to int
}

// interest is a Function's interest in a repository.
type interest struct {
	repository string
	want       Want
	found      *Finding // nil until the first check
}

// NewTracker returns a Tracker that does nothing until Start.
func NewTracker(lister Lister, registry prometheus.Registerer, options Options) *Tracker {
	return &Tracker{
		lister: lister, interval: options.CheckInterval, metrics: newMetrics(registry),
		places: fair.NewPool(fair.Limits{Total: maxChecks, Waiting: math.MaxInt64}), // one request of each namespace
		events: make(chan event.GenericEvent), wake: make(chan struct{}, 1),
		repositories: map[string]*tracked{}, credentials: map[string]*lent{}, functions: map[types.NamespacedName]*interest{},
		queue: queue{lines: map[string]*line{}}, unwanted: map[*tracked]struct{}{},
	}
}

// SetInterval changes the polling interval. Repositories that would wait for longer are checked within the new
// interval.
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
			t.queue.move(repository)
		}
	}
	t.rouse()
}

// Events receives the Functions whose results have changed.
func (t *Tracker) Events() <-chan event.GenericEvent { return t.events }

// Commit records what a Function wants and returns the last result; false before the first check.
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
		repository := t.schedule(key, want, leastPause)
		repository.functions[function] = known
		t.queue.add(function.Namespace, repository)
	case known.want.Reference != want.Reference:
		known.want, known.found = want, nil
		t.schedule(key, want, leastPause)
	case known.want.Nonce != want.Nonce:
		known.want = want
		t.schedule(key, want, leastAsked)
	}
	if known.found == nil {
		return Finding{}, false
	}
	return *known.found, true
}

// Forget removes a Function that no longer needs a repository.
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
	t.queue.remove(function.Namespace, repository)
	t.tidy(repository)
}

// tidy drops a repository without Functions once its check has ended and another one could start: a Function that wants
// it again meanwhile must not start a second check.
func (t *Tracker) tidy(repository *tracked) {
	switch {
	case len(repository.functions) > 0 || repository.busy: // its check ends with tidy
		delete(t.unwanted, repository)
		return
	case time.Since(repository.started) < leastAsked:
		t.unwanted[repository] = struct{}{}
		return
	}
	delete(t.unwanted, repository)
	delete(t.repositories, repository.key)
	fingerprint := repository.repository.Credentials.Fingerprint()
	if held := t.credentials[fingerprint]; held.to > 1 {
		held.to--
	} else {
		delete(t.credentials, fingerprint)
	}
}

// schedule makes a repository due at once, or after a pause since the start of the last check.
func (t *Tracker) schedule(key string, want Want, pause time.Duration) *tracked {
	repository := t.repositories[key]
	if repository == nil {
		repository = &tracked{
			key: key, repository: git.Repository{URL: want.URL, Credentials: t.lend(want.Credentials)},
			functions: map[types.NamespacedName]*interest{}, spots: map[string]*spot{},
		}
		t.repositories[key] = repository
	}
	if repository.busy && (repository.again == 0 || pause < repository.again) {
		repository.again = pause
	}
	if due := repository.started.Add(pause); due.Before(repository.due) {
		repository.due = due
		t.queue.move(repository)
	}
	t.rouse()
	return repository
}

func (t *Tracker) lend(credentials git.Credentials) git.Credentials {
	held := t.credentials[credentials.Fingerprint()]
	if held == nil {
		held = &lent{Credentials: credentials}
		t.credentials[credentials.Fingerprint()] = held
	}
	held.to++
	return held.Credentials
}

func (t *Tracker) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (t *Tracker) NeedLeaderElection() bool { return true }

// Start checks repositories when they are due until ctx ends.
func (t *Tracker) Start(ctx context.Context) error {
	var checks sync.WaitGroup
	defer checks.Wait()
	for {
		namespaces, wait := t.due(time.Now())
		for _, namespace := range namespaces {
			checks.Go(func() { t.serve(ctx, &checks, namespace) })
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

// due returns the namespaces with due repositories that do not wait for a slot yet, and the delay until the next
// repository is due.
func (t *Tracker) due(now time.Time) (ready []string, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for repository := range t.unwanted {
		t.tidy(repository)
	}
	ready, wait = t.queue.ready(now), t.interval
	if len(t.queue.heads) > 0 {
		wait = min(wait, t.queue.heads[0].due.Sub(now))
	}
	return ready, wait
}

// serve checks a repository for a namespace once that has a slot.
func (t *Tracker) serve(ctx context.Context, checks *sync.WaitGroup, namespace string) {
	if t.places.Acquire(ctx.Done(), namespace, 1) != nil {
		return
	}
	repository, references, more := t.next(namespace, time.Now())
	if more {
		checks.Go(func() { t.serve(ctx, checks, namespace) })
	}
	var news []types.NamespacedName
	if repository != nil {
		news = t.check(ctx, namespace, repository, references)
	}
	t.places.Release(namespace, 1)
	for _, function := range news {
		select {
		case t.events <- event.GenericEvent{Object: named(function)}:
		case <-ctx.Done():
			return
		}
	}
}

// next takes the repository of a namespace that has been due for longest, with its wanted references, and reports
// whether there are more. It may return nil: a repository of several namespaces is checked for whichever gets a slot
// first.
func (t *Tracker) next(namespace string, now time.Time) (found *tracked, references []string, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found = t.queue.first(namespace, now); found != nil {
		found.busy, found.started = true, now
		t.queue.move(found)
		more = t.queue.first(namespace, now) != nil
	}
	if !more {
		t.queue.served(namespace)
		t.rouse() // for repositories that are due before the check ends
	}
	if found == nil {
		return nil, nil, false
	}
	wanted := map[string]bool{}
	for _, known := range found.functions {
		wanted[known.want.Reference] = true
	}
	return found, slices.Sorted(maps.Keys(wanted)), more
}

func (t *Tracker) check(ctx context.Context, namespace string, repository *tracked, references []string) (news []types.NamespacedName) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	asked := repository.repository
	asked.Owner = namespace
	listed, err := t.lister.List(limited, asked, references...)
	if ctx.Err() != nil {
		return nil
	}
	took := time.Since(repository.started)
	t.places.Charge(namespace, int64(took))
	t.metrics.observe(err, took)
	return t.settle(repository, references, listed, err, took)
}

// settle records the result of a check and returns the Functions for which it has changed.
func (t *Tracker) settle(
	repository *tracked, asked []string, listed git.References, err error, took time.Duration,
) (news []types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.rouse() // to plan the next one
	repository.last = repository.last.after(err != nil, git.IsTransient(err), took)
	now := time.Now()
	repository.due = now.Add(nextCheck(t.interval, repository.last, rand.Float64())) //nolint:gosec // spreads load
	if repository.again > 0 {
		repository.due = repository.started.Add(repository.again)
	}
	repository.busy, repository.again = false, 0
	t.queue.move(repository)
	t.tidy(repository)
	for function, known := range repository.functions {
		if _, listed := slices.BinarySearch(asked, known.want.Reference); !listed && err == nil {
			continue // it was added meanwhile, and another check is due
		}
		found := Finding{Err: err}
		if err == nil {
			found.Commit, found.Err = listed.Resolve(known.want.Reference)
		}
		if known.found == nil || !known.found.same(found) {
			news = append(news, function)
		}
		known.found = &found
	}
	return news
}

type metrics struct {
	checks  *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_controller_git_checks_total", Help: "Requests for the references of Git repositories, by result.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rouse_controller_git_check_duration_seconds", Help: "How long a Git repository takes to list its references.",
			Buckets: []float64{.05, .1, .3, 1, 3, 10, 30},
		}),
	}
	registry.MustRegister(m.checks, m.seconds)
	return m
}

func (m *metrics) observe(err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.checks.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}

// named returns a Function with only the name, which is all that the queue needs.
func named(function types.NamespacedName) client.Object {
	return &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: function.Namespace, Name: function.Name}}
}
