package filter

import "github.com/rouse-run/rouse/internal/cloudevent"

// Work is how much an evaluation has done, in about a microsecond each. It is counted, not measured: the same event is
// the same work on every machine.
type Work int

const (
	// Light is work that costs no more than some deliveries do.
	Light Work = 500

	// bytesPerWork is how much JSON is read for one; conditionsPerWork how many attributes are looked up and compared.
	bytesPerWork      = 16
	conditionsPerWork = 100

	// lightConditions is how many attributes may be compared with no thought of the event.
	lightConditions = 64
)

// size is what a filter consists of.
type size struct {
	conditions  int
	expressions int
	characters  int // of the expressions
	loops       int
	patterns    int // steps
	readsData   bool
}

// AlwaysLight reports whether no event makes the filter more than Light work.
func (f *Filter) AlwaysLight() bool {
	return f.size.expressions == 0 && f.size.conditions <= lightConditions
}

// Bytes is about how much memory the expressions take, by their length.
func (f *Filter) Bytes() int64 {
	const perCharacter, perStep = 64, 48
	return int64(perCharacter*f.size.characters + perStep*f.size.patterns)
}

// WorkAhead is the work for an event that is known without doing it: its JSON has to be read, its attributes compared.
func (f *Filter) WorkAhead(e *cloudevent.Event) Work {
	// An attribute is looked for among all that an event has.
	work := f.size.conditions * (1 + len(e.Extensions)) / conditionsPerWork
	if f.size.readsData {
		work += len(e.Data) / bytesPerWork
	}
	return Work(work)
}

// Measure is Match, and says how much work it was.
func (f *Filter) Measure(e *cloudevent.Event) (matches bool, work Work, err error) {
	in := &input{event: e}
	matches, err = f.root.match(in)
	return matches, f.WorkAhead(e) + Work(min(in.spent, maxCost)), err
}
