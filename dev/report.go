package dev

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/routing"
)

// hop is an event at a sink.
type hop struct {
	event, sink  string // the event's type, namespace/name of the Function
	stored       time.Time
	first        time.Duration // until the handler's first line, or the start of the delivery
	settled      time.Duration
	deadLettered bool
	woke         bool // the first event of a Function that slept
}

// report summarizes a run with --once.
type report struct {
	events int // stored
	lost   int // deliveries without a known result
	hops   []hop
	wake   time.Duration // median of the cold starts

	ended    []journal.Record // deliveries that ended at a sink
	dead     []journal.Record // those of them that ended as dead letters
	unwanted []journal.Record // stored, for no Subscription
}

// eventKey identifies an event.
type eventKey struct{ source, id string }

// deliveryKey identifies an event at a Subscription.
type deliveryKey struct {
	eventKey

	subscription string
}

// reportOf returns the report of a run: each stored event has to be settled at each Subscription that matches it.
func reportOf(records []journal.Record, lines []process.Line, routes []routing.Route, sleepers map[string]bool) report {
	stored := map[eventKey]journal.Record{}
	ends := map[deliveryKey]journal.Record{}
	for _, record := range records {
		event := eventKey{source: record.Source, id: record.ID}
		switch record.Kind {
		case journal.Stored:
			if _, again := stored[event]; !again {
				stored[event] = record
			}
		case journal.Delivered, journal.DeadLettered, journal.Filtered:
			if !record.DeadLetter {
				ends[deliveryKey{event, record.Namespace + "/" + record.Subscription}] = record
			}
		default:
		}
	}
	r := report{events: len(stored)}
	for _, record := range stored {
		r.follow(record, ends, lines, routes)
	}
	for _, records := range [][]journal.Record{r.ended, r.dead, r.unwanted} {
		slices.SortFunc(records, func(a, b journal.Record) int {
			return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Subscription, b.Subscription))
		})
	}
	slices.SortFunc(r.hops, func(a, b hop) int {
		return cmp.Or(a.stored.Compare(b.stored), cmp.Compare(a.sink, b.sink), cmp.Compare(a.first, b.first))
	})
	r.findWakes(sleepers)
	return r
}

// follow adds a stored event.
func (r *report) follow(stored journal.Record, ends map[deliveryKey]journal.Record, lines []process.Line, routes []routing.Route) {
	subject := routing.Subject(stored.Source, stored.Type, false)
	wanted := false
	for _, route := range routes {
		if !takes(route, subject) {
			continue
		}
		end, ended := ends[deliveryKey{eventKey{source: stored.Source, id: stored.ID}, route.Subscription.String()}]
		wanted = wanted || !ended || end.Kind != journal.Filtered
		switch {
		case !ended:
			r.lost++
		case end.Kind == journal.Filtered:
		default:
			r.hops = append(r.hops, hopOf(stored, end, lines))
			r.ended = append(r.ended, end)
			if end.Kind == journal.DeadLettered {
				r.dead = append(r.dead, end)
			}
		}
	}
	if !wanted {
		r.unwanted = append(r.unwanted, stored)
	}
}

func takes(route routing.Route, subject string) bool {
	return slices.ContainsFunc(route.Types, func(t routing.TypeMapping) bool { return t.Matches(subject) })
}

func hopOf(stored, end journal.Record, lines []process.Line) hop {
	h := hop{event: end.Type, sink: end.Sink, stored: end.Stored, deadLettered: end.Kind == journal.DeadLettered}
	if h.stored.IsZero() {
		h.stored = stored.Time
	}
	first := end.Began
	for _, line := range lines {
		spoke := line.Stream == process.Stdout || line.Stream == process.Stderr
		if spoke && line.Namespace+"/"+line.Function == end.Sink && !line.Time.Before(end.Began) && !line.Time.After(end.Time) {
			first = line.Time
			break
		}
	}
	h.first, h.settled = first.Sub(h.stored), end.Time.Sub(h.stored)
	return h
}

// findWakes marks the first event of each Function that slept.
func (r *report) findWakes(sleepers map[string]bool) {
	seen := map[string]bool{}
	var wakes []time.Duration
	for i := range r.hops {
		h := &r.hops[i]
		h.woke = sleepers[h.sink] && !seen[h.sink]
		seen[h.sink] = true
		if h.woke {
			wakes = append(wakes, h.first)
		}
	}
	if len(wakes) > 0 {
		slices.Sort(wakes)
		r.wake = wakes[(len(wakes)-1)/2]
	}
}

// table returns a row for each hop.
func (r report) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "EVENT\tFUNCTION\tSTORED\tFIRST BYTE\tSETTLED\t") // into memory
	for _, h := range r.hops {
		var notes []string
		if h.woke {
			notes = append(notes, "woke it")
		}
		if h.deadLettered {
			notes = append(notes, "dead letter")
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d ms\t%d ms\t%s\n", h.event, h.sink, h.stored.Local().Format("15:04:05.000"),
			h.first.Milliseconds(), h.settled.Milliseconds(), strings.Join(notes, ", "))
	}
	_ = w.Flush() // into memory
	return text.String()
}

// loadTries is the number of failed starts after which a run with Once gives a Function up. A single one may be chance.
const loadTries = 2

// ErrFailed is returned by a run with Once that failed. The cause was printed.
var ErrFailed = errors.New("the run failed")

// unloaded returns the Functions that do not load, with the reasons. Before the last check it leaves out those that may still load.
func unloaded(functions []runner.Status, last bool) []string {
	tries := loadTries
	if last {
		tries = 1
	}
	var found []string
	for _, status := range functions {
		if status.Unprepared || status.FailedStarts >= tries {
			why, _, _ := strings.Cut(status.LastError, "\n")
			found = append(found, fmt.Sprintf("%s/%s: %s", status.Namespace, status.Name, why))
		}
	}
	return found
}

// faults returns what went wrong in a run; none when it succeeded. Deliveries to a Function that does not load are no separate fault.
func (r report) faults(unloaded []string, missing string) []string {
	var faults []string
	add := func(what []string, one, many string) {
		switch len(what) {
		case 0:
		case 1:
			faults = append(faults, fmt.Sprintf("1 %s: %s", one, what[0]))
		default:
			faults = append(faults, fmt.Sprintf("%d %s, the first: %s", len(what), many, what[0]))
		}
	}
	add(unloaded, "Function did not load", "Functions did not load")
	add(each(r.dead, deadLetter), "event became a dead letter", "events became dead letters")
	add(each(r.unwanted, published), "event was wanted by no Subscription", "events were wanted by no Subscription")
	if missing != "" && len(unloaded) == 0 {
		faults = append(faults, missing)
	}
	return faults
}

func each(records []journal.Record, describe func(journal.Record) string) []string {
	texts := make([]string, 0, len(records))
	for _, record := range records {
		texts = append(texts, describe(record))
	}
	return texts
}

func published(r journal.Record) string { return fmt.Sprintf("%s %s from %s", r.Type, r.ID, r.Source) }

func deadLetter(r journal.Record) string {
	text := fmt.Sprintf("%s at %s: %s", published(r), r.Sink, cmp.Or(r.Message, r.Reason))
	if r.Status > 0 {
		text += fmt.Sprintf(", status %d", r.Status)
	}
	return text
}

// conclude prints the line that programs read. It fails when the run failed.
func (r report) conclude(out io.Writer, faults []string) error {
	if len(faults) > 0 {
		_, err := fmt.Fprintf(out, "run failed: %s\n", printable(strings.Join(faults, "; ")))
		return errors.Join(ErrFailed, err)
	}
	_, err := fmt.Fprintf(out, "run ok: events=%d lost=%d wake_to_first_byte_p50_ms=%d\n", r.events, r.lost, r.wake.Milliseconds())
	return err
}

// printable removes control characters from texts of events, handlers and packages.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
