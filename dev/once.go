package dev

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/view"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// onceTimeout bounds a run with --once.
	onceTimeout = 90 * time.Second
	settlePoll  = 50 * time.Millisecond
	// notLoaded is the reason of a run that ends early. The faults of the report contain the details.
	notLoaded = "a Function does not load"
)

// once publishes the events, waits until they and the events that they cause are settled, and prints a report. It returns ErrFailed
// when an event became a dead letter or matched no Subscription, a Function did not load, or something is missing.
func (m *mode) once(ctx context.Context) error {
	var missing string
	var broken []string
	m.emissions = newEmissions(m.events)
	err := together(ctx,
		func(ctx context.Context) error {
			return m.conn.WatchPublished(ctx, m.emissions.start, m.emissions.add)
		},
		func(ctx context.Context) error { return view.Plain(ctx, m.source, m.options.Out) },
		func(ctx context.Context) error {
			missing = m.play(ctx)
			broken = unloaded(m.functions.Status(), missing != "")
			return nil
		},
	)
	if err != nil || ctx.Err() != nil {
		return err
	}
	records := m.journal.Recent(journal.Query{})
	report := reportOf(records, m.feed.Recent(types.NamespacedName{}, feedLines), m.routesNow(ctx), m.sleepers())
	if missing == "" && report.lost > 0 {
		missing = fmt.Sprintf("%d deliveries are unaccounted for", report.lost)
	}
	if err := report.print(m.options.Out); err != nil {
		return err
	}
	if m.expected != nil && len(broken) == 0 && missing == "" {
		if report, missing, err = m.compare(report); err != nil {
			return fmt.Errorf("print the differences: %w", err)
		}
	}
	return report.conclude(m.options.Out, report.faults(broken, missing))
}

// play publishes the events and waits. It returns what is missing at the end, or nothing.
func (m *mode) play(ctx context.Context) (missing string) {
	ctx, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	if wrong := m.source.wrong(); wrong != "" {
		return wrong
	}
	if !m.awaitUp(ctx) {
		return "not every Function was prepared in time: " + m.unready()
	}
	if m.brokenAlready() {
		return notLoaded
	}
	select {
	case <-ctx.Done():
		return "the published events cannot be watched"
	case <-m.emissions.started:
	}
	if err := m.source.publisher.publish(ctx, m.events); err != nil {
		return err.Error()
	}
	for {
		missing = m.missing(ctx)
		if missing == "" {
			return ""
		}
		if m.brokenAlready() {
			return notLoaded
		}
		select {
		case <-ctx.Done():
			return fmt.Sprintf("after %s %s", onceTimeout, missing)
		case <-time.After(settlePoll):
		}
	}
}

// brokenAlready reports whether waiting is pointless because a Function does not load.
func (m *mode) brokenAlready() bool { return len(unloaded(m.functions.Status(), false)) > 0 }

// missing returns what the run still waits for.
func (m *mode) missing(ctx context.Context) string {
	report := reportOf(m.journal.Recent(journal.Query{}), nil, m.routesNow(ctx), nil)
	if report.events < len(m.events) {
		return fmt.Sprintf("%d of %d events are stored", report.events, len(m.events))
	}
	if read := m.emissions.count(); m.expected != nil && read < report.events {
		return fmt.Sprintf("%d of %d events are read", read, report.events)
	}
	if report.lost > 0 {
		return fmt.Sprintf("%d deliveries are not settled%s", report.lost, m.failures())
	}
	all, err := m.store.Subscriptions(ctx)
	if err != nil {
		return "the backlog is not known: " + err.Error()
	}
	for _, sub := range all {
		if waiting := sub.Backlog + sub.AckPending + sub.WaitingRetries; waiting > 0 {
			return fmt.Sprintf("%d events wait for Subscription %s/%s%s", waiting, sub.Namespace, sub.Name, m.failures())
		}
	}
	if restless := m.restless(); len(restless) > 0 {
		return "not back to their replicas without work: " + strings.Join(restless, ", ") + m.failures()
	}
	return ""
}

// restless returns the Functions whose replicas are not yet those of an idle Function.
func (m *mode) restless() []string {
	targets := m.folder.lows()
	var found []string
	for _, status := range m.functions.Status() {
		low := targets[types.NamespacedName{Namespace: status.Namespace, Name: status.Name}]
		if status.Desired > low || status.Ready != low {
			found = append(found, status.Namespace+"/"+status.Name)
		}
	}
	return found
}

func (m *mode) unready() string {
	var found []string
	for _, status := range m.functions.Status() {
		found = append(found, fmt.Sprintf("%s/%s is %s", status.Namespace, status.Name, status.Phase))
	}
	return strings.Join(found, ", ")
}

// failures returns the last errors of Functions that do not run.
func (m *mode) failures() string {
	var text strings.Builder
	for _, status := range m.functions.Status() {
		if first, _, _ := strings.Cut(status.LastError, "\n"); first != "" {
			fmt.Fprintf(&text, "; %s/%s: %s", status.Namespace, status.Name, first)
		}
	}
	return text.String()
}

// sleepers returns the Functions that an event has to wake.
func (m *mode) sleepers() map[string]bool {
	found := map[string]bool{}
	for name, low := range m.folder.lows() {
		found[name.String()] = low == 0
	}
	return found
}

func (m *mode) routesNow(ctx context.Context) []routing.Route {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var found []routing.Route
	_ = m.subs.Watch(ctx, func(routes []routing.Route) { // returns after the first call
		found = routes
		cancel()
	})
	return found
}

// lows returns the minimum of replicas of each Function.
func (f *folder) lows() map[types.NamespacedName]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	lows := make(map[types.NamespacedName]int, len(f.targets))
	for name, target := range f.targets {
		lows[name] = target.Min
	}
	return lows
}

// wrong describes the objects in the folder that do not run.
func (s *source) wrong() string {
	problems := slices.DeleteFunc(s.wrongs(), func(p manifest.Problem) bool { return p.Warning })
	if len(problems) == 0 {
		return ""
	}
	return fmt.Sprintf("%d problems in %s, the first: %s", len(problems), s.directory, problems[0].Error())
}

// print prints a row for each delivery.
func (r report) print(out io.Writer) error {
	if _, err := io.WriteString(out, "\n"+r.table()); err != nil {
		return fmt.Errorf("print the run: %w", err)
	}
	return nil
}

// slowStart is the time after which a step at startup is reported.
const slowStart = time.Second

// reportIfSlow calls do, and prints the text when that takes longer than after.
func reportIfSlow(out io.Writer, after time.Duration, text string, do func() error) error {
	done, reported := make(chan struct{}), make(chan error, 1)
	go func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-done:
			reported <- nil
		case <-timer.C:
			reported <- view.PrintLine(out, text)
		}
	}()
	err := do()
	close(done)
	if written := <-reported; err == nil {
		err = written
	}
	return err
}
