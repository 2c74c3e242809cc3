package dev

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
)

// shownFor is how long all pages show an answer of NATS.
const shownFor = 400 * time.Millisecond

// askTimeout bounds the requests to NATS.
const askTimeout = 2 * time.Second

// shownState implements dashboard.State.
type shownState struct {
	*home

	mu       sync.Mutex
	asked    time.Time
	backlogs []admin.Subscription
	streams  []dashboard.Stream
}

// Snapshot implements dashboard.State.
func (s *shownState) Snapshot(ctx context.Context, _ dashboard.User) (dashboard.Snapshot, error) {
	backlogs, streams := s.kept(ctx)
	found := dashboard.Snapshot{
		Functions: s.shownFunctions(), Subscriptions: s.shownSubscriptions(backlogs), Streams: streams,
		Exposures: []dashboard.Exposure{}, Schedules: []admin.Schedule{}, Problems: []dashboard.Problem{},
	}
	for _, rule := range s.apiRules.Status() {
		found.Exposures = append(found.Exposures, dashboard.Exposure{
			Kind: cmp.Or(rule.Kind, kindAPIRule), Namespace: rule.Namespace, Name: rule.Name, URL: rule.URL, At: rule.At.String(),
		})
	}
	if timers := s.bridge.Timers(); timers != nil {
		for _, each := range timers.Schedules("") {
			found.Schedules = append(found.Schedules, admin.ScheduleOf(each))
		}
	}
	for _, each := range s.source.wrongs() {
		found.Problems = append(found.Problems, dashboard.Problem{
			At: each.String(), Object: each.Object, Message: each.Message, Remedy: each.Remedy, Warning: each.Warning,
		})
	}
	return found, nil
}

// kept returns the last answer of NATS, which it asks again after shownFor. While NATS does not answer, the last answer stays.
func (s *shownState) kept(ctx context.Context) ([]admin.Subscription, []dashboard.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) < shownFor {
		return s.backlogs, s.streams
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout) // the answer is for all pages
	defer cancel()
	if backlogs, err := s.store.Subscriptions(ctx); err == nil {
		s.backlogs = backlogs
	}
	s.streams = s.streams[:0:0]
	for _, name := range []string{s.mode.streams.Name, broker.RetryStream, broker.DeadLetterStream} {
		fill, err := s.conn.Fill(ctx, name)
		shown := dashboard.Stream{Name: name, Fill: fill}
		if err != nil {
			shown.Problem = err.Error()
		}
		s.streams = append(s.streams, shown)
	}
	s.asked = time.Now()
	return s.backlogs, s.streams
}

func (s *shownState) shownFunctions() []dashboard.Function {
	all, wakes := []dashboard.Function{}, map[types.NamespacedName]*activation.Wake{}
	looked := map[string]bool{}
	for _, status := range s.functions.Status() {
		name := types.NamespacedName{Namespace: status.Namespace, Name: status.Name}
		if !looked[status.Namespace] {
			looked[status.Namespace] = true
			for _, wake := range s.bridge.Wakes().In(status.Namespace) {
				wakes[types.NamespacedName{Namespace: wake.Namespace, Name: wake.Name}] = &wake.Wake
			}
		}
		shown := dashboard.Function{
			Namespace: status.Namespace, Name: status.Name, Runtime: status.Runtime, Phase: status.Phase, Doing: status.Doing,
			Problem: status.LastError, Older: status.Older, Desired: status.Desired, Ready: status.Ready, Min: status.Desired, Max: status.Desired,
			Wakes: &status.Wakes, Restarts: &status.Restarts, URL: status.URL, Exposed: s.apiRules.URLs(name),
			LastWake: wakes[name], At: status.At.String(),
		}
		if scaling := s.scaling.Status(name); scaling != nil {
			shown.Min, shown.Max = scaling.Min, scaling.Max
		}
		if backlog, known := s.scaling.Backlog(name); known {
			shown.Backlog = &backlog
		}
		all = append(all, shown)
	}
	return all
}

func (s *shownState) shownSubscriptions(backlogs []admin.Subscription) []dashboard.Subscription {
	kept := map[types.NamespacedName]admin.Subscription{}
	for _, each := range backlogs {
		kept[types.NamespacedName{Namespace: each.Namespace, Name: each.Name}] = each
	}
	sinks := s.subs.sinks()
	all := []dashboard.Subscription{}
	for _, status := range s.subs.Status() {
		name := types.NamespacedName{Namespace: status.Namespace, Name: status.Name}
		shown := dashboard.Subscription{
			Namespace: status.Namespace, Name: status.Name, Source: status.Source, Types: status.Types, TypeMatching: status.TypeMatching,
			Sink: status.Sink, State: status.State, Message: status.Message,
			Backlog: kept[name].Backlog, InFlight: kept[name].AckPending, Retries: kept[name].WaitingRetries, DeadLetters: kept[name].DeadLetters,
		}
		if sink := sinks[name]; s.folder.function(sink) != nil {
			shown.Sink, shown.Function = sink.String(), true
		}
		all = append(all, shown)
	}
	return all
}

// Function implements dashboard.State.
func (s *shownState) Function(_ context.Context, _ dashboard.User, name types.NamespacedName) (dashboard.FunctionDetail, error) {
	detail, err := dashboard.DetailOf(s.shownFunctions(), name)
	if err != nil {
		return detail, err
	}
	if scaling := s.scaling.Status(name); scaling != nil {
		scaling.Ready = detail.Ready
		detail.Why = scaling.Explain(time.Now())
	}
	detail.Pods = s.podsOf(name)
	if fn := s.folder.function(name); fn != nil {
		detail.Describe(&fn.Spec)
		addFiles(&detail, fn)
	}
	return detail, nil
}

// maxShownSource bounds the text of a Function's source that is shown.
const maxShownSource = 512 << 10

// addFiles adds the files of a Function's source. What is no text, and what is too much, is left out.
func addFiles(detail *dashboard.FunctionDetail, fn *manifest.Function) {
	if fn.Files == nil {
		return
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(fn.Files.Content)) {
		content := fn.Files.Content[name]
		if size += len(content); size <= maxShownSource && utf8.Valid(content) {
			detail.Files = append(detail.Files, dashboard.SourceFile{Name: name, Text: string(content)})
		}
	}
}

// sinks returns the Services that Subscriptions deliver to.
func (s *subscriptionWorkers) sinks() map[types.NamespacedName]types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[types.NamespacedName]types.NamespacedName, len(s.wanted.entries))
	for name, e := range s.wanted.entries {
		found[name] = e.route.Service
	}
	return found
}

// function returns a Function as it was last read, nil for none.
func (f *folder) function(name types.NamespacedName) *manifest.Function {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.last {
		if f.last[i].Namespace == name.Namespace && f.last[i].Name == name.Name {
			return &f.last[i]
		}
	}
	return nil
}
