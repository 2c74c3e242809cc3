package dev

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rouse-run/rouse/dev/expect"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	// maxEmitted bounds the data of the events that are compared, in bytes.
	maxEmitted = 64 * mebibyte
	// maxDifferences bounds the differences that are printed.
	maxDifferences = 50
)

// input holds what files tell a run to publish and to expect.
type input struct {
	events   []cloudevent.Event
	expected *expect.File // nil without --expect
}

// readInput reads the files of --publish and --expect.
func (o *Options) readInput() (input, error) {
	events, err := readEvents(o.Publish)
	if err != nil || o.Expect == "" {
		return input{events: events}, err
	}
	content, err := readBounded(o.Expect, expect.MaxSize+1)
	if err != nil {
		return input{}, fmt.Errorf("read the file of --expect: %w", err)
	}
	file, err := expect.Read(o.Expect, content)
	if err != nil {
		return input{}, err
	}
	return input{events: append(events, file.Publish...), expected: &file}, nil
}

func readBounded(name string, most int64) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(file, most))
}

// emissions collects the events that are published while a run lasts.
type emissions struct {
	started chan struct{} // closed when no event can be missed

	mu     sync.Mutex
	known  map[eventKey]bool
	events []cloudevent.Event // but for those of the run itself
	left   int                // bytes of data
}

// newEmissions returns emissions that leave the events of the run out.
func newEmissions(own []cloudevent.Event) *emissions {
	e := &emissions{started: make(chan struct{}), known: map[eventKey]bool{}, left: maxEmitted}
	for i := range own {
		e.known[eventKey{source: own[i].Source, id: own[i].ID}] = false
	}
	return e
}

func (e *emissions) start() { close(e.started) }

// add adds an event. One that comes again is the same event.
func (e *emissions) add(ev cloudevent.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := eventKey{source: ev.Source, id: ev.ID}
	seen, own := e.known[key]
	e.known[key] = true
	if seen || own {
		return
	}
	if e.left -= len(ev.Data); e.left >= 0 {
		e.events = append(e.events, ev)
	}
}

// count returns how many different events were published.
func (e *emissions) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	count := 0
	for _, seen := range e.known {
		if seen {
			count++
		}
	}
	return count
}

// all returns the events, and whether no data were left out.
func (e *emissions) all() (events []cloudevent.Event, complete bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.events), e.left >= 0
}

// compare prints the differences between the run and the expectations, and returns the report without the faults that the expectations
// decide on, and what is to be said about the differences.
func (m *mode) compare(r report) (rest report, fault string, err error) {
	emitted, complete := m.emissions.all()
	if !complete {
		return r, fmt.Sprintf("the emitted events have more than %d MiB of data, so they are not compared", maxEmitted/mebibyte), nil
	}
	file := m.expected
	differences := file.Compare(expect.Observed{Emitted: emitted, Settled: r.ended})
	r.dead = nil
	if file.Emitted.Checked {
		r.unwanted = slices.DeleteFunc(r.unwanted, func(record journal.Record) bool { return !m.published(record) })
	}
	if len(differences) == 0 {
		_, err := fmt.Fprintf(m.options.Out, "\n%s: everything is as expected\n", printable(file.Name))
		return r, "", err
	}
	_, err = io.WriteString(m.options.Out, "\n"+differencesText(file.Name, differences))
	return r, plural(uint64(len(differences)), "difference", "differences") + " from " + file.Name, err
}

// published reports whether the run itself has published an event.
func (m *mode) published(record journal.Record) bool {
	return slices.ContainsFunc(m.events, func(ev cloudevent.Event) bool { return ev.Source == record.Source && ev.ID == record.ID })
}

func differencesText(file string, differences []expect.Difference) string {
	var text strings.Builder
	for _, difference := range differences[:min(len(differences), maxDifferences)] {
		at := ""
		if difference.Line > 0 {
			at = fmt.Sprintf("%s:%d: ", file, difference.Line)
		}
		fmt.Fprintln(&text, printable(at+difference.What))
		for _, line := range difference.Lines {
			fmt.Fprintln(&text, "    "+printable(line))
		}
	}
	if over := len(differences) - maxDifferences; over > 0 {
		fmt.Fprintf(&text, "and %d more\n", over)
	}
	return text.String()
}
