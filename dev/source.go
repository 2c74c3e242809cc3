package dev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/autoscale"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/dev/view"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// shownLines is the number of past lines that a view begins with.
	shownLines = 1000
	// suffixTime is the time format of readable ids.
	suffixTime = "-150405.000"
)

// source is the data source of a view.
type source struct {
	directory, publish, admin, dashboard string

	functions   *runner.Functions
	apiRules    *APIRules
	scaling     *autoscale.Autoscaler
	deadLetters *deadLetters
	subs        *subscriptionWorkers
	journal     *journal.Journal
	feed        *process.Feed
	publisher   *publisher
	events      []cloudevent.Event // of --publish

	mu       sync.Mutex
	problems []manifest.Problem
	changed  chan struct{}
}

// setProblems sets the problems in the folder that the view shows.
func (s *source) setProblems(problems []manifest.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = problems
	close(s.changed)
	s.changed = make(chan struct{})
}

// FollowState implements view.Source.
func (s *source) FollowState(ctx context.Context, handle func(view.State)) {
	for ctx.Err() == nil {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		// The channels are taken before the state is read, so that no change is missed.
		functions, apiRules, backlogs := s.functions.Changed(), s.apiRules.Changed(), s.scaling.Changed()
		dead, deadLetters := s.deadLetters.now()
		state := s.state()
		state.DeadLetters = dead
		handle(state)
		var later <-chan time.Time
		if slices.ContainsFunc(state.Functions, func(f view.Function) bool { return f.Doing != "" }) {
			later = time.After(time.Second) // updates the elapsed time
		}
		select {
		case <-ctx.Done():
		case <-later:
		case <-changed:
		case <-functions:
		case <-apiRules:
		case <-backlogs:
		case <-deadLetters:
		}
	}
}

// wrongs returns all problems of the folder.
func (s *source) wrongs() []manifest.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.problems, s.apiRules.Problems())
}

func (s *source) state() view.State {
	state := view.State{Directory: s.directory, Publish: s.publish, Admin: s.admin, Dashboard: s.dashboard, Problems: s.wrongs()}
	for _, status := range s.apiRules.Status() {
		state.APIRules = append(state.APIRules, view.APIRule(status))
	}
	for _, status := range s.functions.Status() {
		backlog, _ := s.scaling.Backlog(types.NamespacedName{Namespace: status.Namespace, Name: status.Name})
		fn := view.Function{Status: status, Backlog: backlog}
		if status.Doing != "" {
			fn.DoingFor = time.Since(status.Since)
		}
		state.Functions = append(state.Functions, fn)
	}
	return state
}

// FollowEvents implements view.Source.
func (s *source) FollowEvents(ctx context.Context, handle func(journal.Record)) {
	s.journal.Follow(ctx, journal.Query{}, func(r journal.Record) { handle(s.explained(r)) })
}

// explained adds to a stored event that no Subscription matches a Message about that.
func (s *source) explained(r journal.Record) journal.Record {
	if r.Kind == journal.Stored {
		r.Message = s.subs.Interest().Explain(routing.EventKind{Type: r.Type, Source: r.Source})
	}
	return r
}

// FollowLines implements view.Source.
func (s *source) FollowLines(ctx context.Context, handle func(process.Line)) {
	s.feed.Follow(ctx, types.NamespacedName{}, shownLines, handle)
}

// Republish implements view.Source.
func (s *source) Republish(ctx context.Context) (string, error) {
	if len(s.events) == 0 {
		return "", errors.New("no events to publish: name a file with events with --publish")
	}
	suffix := time.Now().Format(suffixTime)
	fresh := make([]cloudevent.Event, 0, len(s.events))
	for _, ev := range s.events {
		fresh = append(fresh, withID(ev, suffix))
	}
	if err := s.publisher.publish(ctx, fresh); err != nil {
		return "", err
	}
	if len(fresh) == 1 {
		return fmt.Sprintf("published %q", fresh[0].ID), nil
	}
	return fmt.Sprintf("published %d events", len(fresh)), nil
}

// deadLetterPoll is the interval at which dead letters are counted, because other clients may redrive and purge them.
const deadLetterPoll = 500 * time.Millisecond

// deadLetters counts the dead letters of each Subscription.
type deadLetters struct {
	count func(ctx context.Context) (map[types.NamespacedName]uint64, error)

	mu      sync.Mutex
	counts  map[types.NamespacedName]uint64
	changed chan struct{} // closed and replaced when they change
}

func newDeadLetters(count func(ctx context.Context) (map[types.NamespacedName]uint64, error)) *deadLetters {
	return &deadLetters{count: count, changed: make(chan struct{})}
}

// run counts until ctx ends. While counting fails, the last count stays.
func (l *deadLetters) run(ctx context.Context) error {
	ticker := time.NewTicker(deadLetterPoll)
	defer ticker.Stop()
	for {
		if counts, err := l.count(ctx); err == nil {
			l.set(counts)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (l *deadLetters) set(counts map[types.NamespacedName]uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if maps.Equal(l.counts, counts) {
		return
	}
	l.counts = counts
	close(l.changed)
	l.changed = make(chan struct{})
}

// now returns the counts, which must not be modified, and a channel that is closed when they change.
func (l *deadLetters) now() (counts map[types.NamespacedName]uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts, l.changed
}
