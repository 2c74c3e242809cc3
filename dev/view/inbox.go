package view

import (
	"sync"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// mostWaiting is how many records, and how many lines, wait for the next picture.
const mostWaiting = 4000

// batch is what came in since the last picture.
type batch struct {
	state   *State
	events  []journal.Record
	lines   []process.Line
	skipped int // what came faster than it could be shown
}

// inbox collects what the followers of a source get, so that none of them waits for the screen.
type inbox struct {
	ready chan struct{} // has a value while the inbox is not empty

	mutex   sync.Mutex
	waiting batch
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (i *inbox) state(s State) {
	i.put(func(b *batch) { b.state = &s })
}

func (i *inbox) event(r journal.Record) {
	i.put(func(b *batch) {
		b.events = append(b.events, r)
		if len(b.events) > mostWaiting {
			b.events = append(b.events[:0], b.events[mostWaiting/2:]...)
			b.skipped += mostWaiting / 2
		}
	})
}

func (i *inbox) line(l process.Line) {
	i.put(func(b *batch) {
		b.lines = append(b.lines, l)
		if len(b.lines) > mostWaiting {
			b.lines = append(b.lines[:0], b.lines[mostWaiting/2:]...)
			b.skipped += mostWaiting / 2
		}
	})
}

func (i *inbox) put(change func(*batch)) {
	i.mutex.Lock()
	change(&i.waiting)
	i.mutex.Unlock()
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

// drain empties the inbox.
func (i *inbox) drain() batch {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	taken := i.waiting
	i.waiting = batch{}
	return taken
}
