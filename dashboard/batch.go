package dashboard

import (
	"sync"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

const (
	// liveSample and eventSample bound the records that a stream sends in a turn.
	liveSample  = 40
	eventSample = 500
	// maxPaths bounds the paths that are counted in a turn. The records of further ones count as skipped.
	maxPaths = 400
)

// Flow is what happened to events since the last turn of a stream.
type Flow struct {
	// Records are all records, or the first of a turn.
	Records []journal.Record `json:"records"`
	// Skipped counts those that are not among Records.
	Skipped int `json:"skipped,omitempty"`
	// Paths count all of them.
	Paths []Path `json:"paths"`
	// Lost counts records that the journal dropped before they were read.
	Lost int `json:"lost,omitempty"`
}

// Path is a way that events take: into the stream, or from there to a Subscription.
type Path struct {
	way

	Count int `json:"count"`
}

type way struct {
	Kind         journal.Kind `json:"kind"`
	Source       string       `json:"source"`
	Type         string       `json:"type"`
	Subscription string       `json:"subscription,omitempty"` // namespace/name
}

// batch collects records between two turns of a stream. It is safe for concurrent use, and bounded.
type batch struct {
	sample int

	mu    sync.Mutex
	flow  Flow
	ways  map[way]int // index in Paths
	moved bool
}

func newBatch(sample int) *batch { return &batch{sample: sample, ways: map[way]int{}} }

// add takes a record. It never waits.
func (b *batch) add(r journal.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved = true
	if r.Kind == journal.Skipped {
		b.flow.Lost += r.Count
		return
	}
	if len(b.flow.Records) < b.sample {
		b.flow.Records = append(b.flow.Records, r)
	} else {
		b.flow.Skipped++
	}
	taken := way{Kind: r.Kind, Source: r.Source, Type: r.Type}
	if r.Subscription != "" {
		taken.Subscription = r.Namespace + "/" + r.Subscription
	}
	at, known := b.ways[taken]
	switch {
	case known:
		b.flow.Paths[at].Count++
	case len(b.flow.Paths) < maxPaths:
		b.ways[taken] = len(b.flow.Paths)
		b.flow.Paths = append(b.flow.Paths, Path{taken, 1})
	}
}

// take returns what was collected, and false for nothing.
func (b *batch) take() (flow Flow, moved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	flow, moved = b.flow, b.moved
	if flow.Records == nil {
		flow.Records = []journal.Record{}
	}
	if flow.Paths == nil {
		flow.Paths = []Path{}
	}
	b.flow, b.moved = Flow{}, false
	clear(b.ways)
	return flow, moved
}

const (
	// waitingLines bounds the lines that wait for the next turn, and waitingBytes their texts.
	waitingLines = 2000
	waitingBytes = 1 << 20
)

// lineBatch is what a stream of lines sends in a turn.
type lineBatch struct {
	Lines []Line `json:"lines"`
	// Skipped counts the lines before them that came too fast to be sent.
	Skipped int `json:"skipped,omitempty"`
}

// lineBuffer collects the lines between two turns. It is safe for concurrent use, and bounded.
type lineBuffer struct {
	mu    sync.Mutex
	found lineBatch
	bytes int
}

// add takes a line. Of more than fit the first are dropped.
func (b *lineBuffer) add(line Line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.found.Lines, b.bytes = append(b.found.Lines, line), b.bytes+len(line.Text)
	for len(b.found.Lines) > waitingLines || b.bytes > waitingBytes && len(b.found.Lines) > 1 {
		b.bytes -= len(b.found.Lines[0].Text)
		b.found.Lines = b.found.Lines[1:]
		b.found.Skipped++
	}
}

func (b *lineBuffer) take() lineBatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.found
	b.found, b.bytes = lineBatch{}, 0
	return found
}
