package dispatchtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Memory is a durable consumer without a broker. It redelivers what is not settled within AckWait, and gives out no
// more than MaxAckPending at a time.
type Memory struct {
	mu          sync.Mutex
	ackWait     time.Duration
	stored      []*stored
	deadLetters []StoredDeadLetter
	sources     int           // that receive
	changed     chan struct{} // closed and replaced whenever a message may have become available
}

type stored struct {
	event    *cloudevent.Event // nil when the message is no event
	since    time.Time
	attempts int // that were made
	delivery int // counts deliveries: only the last one can be settled
	state    state
	holder   *int      // the source that has a held one
	due      time.Time // when a held or waiting message is delivered again
}

type state int

const (
	pending  state = iota
	held           // delivered and not settled
	waiting        // for its next attempt
	detached       // its call goes on
	done
)

// NewMemory makes an empty one.
func NewMemory(ackWait time.Duration) *Memory {
	return &Memory{ackWait: ackWait, changed: make(chan struct{})}
}

// Publish implements Backend.
func (m *Memory) Publish(t *testing.T, events ...cloudevent.Event) {
	t.Helper()
	for _, ev := range events {
		m.add(&stored{event: &ev})
	}
}

// PublishGarbage implements Backend.
func (m *Memory) PublishGarbage(t *testing.T) {
	t.Helper()
	m.add(&stored{})
}

func (m *Memory) add(s *stored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.since = time.Now()
	m.stored = append(m.stored, s)
	m.wake()
}

func (m *Memory) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Source implements Backend. It is always in order.
func (m *Memory) Source(t *testing.T, _ bool) dispatch.Source {
	t.Helper()
	return (*memorySource)(m)
}

// StoredDeadLetters implements Backend.
func (m *Memory) StoredDeadLetters(t *testing.T) []StoredDeadLetter {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.deadLetters)
}

// Backlog implements Backend.
func (m *Memory) Backlog(t *testing.T) Backlog {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var b Backlog
	for _, s := range m.stored {
		switch s.state {
		case pending:
			b.Pending++
		case held:
			b.AckPending++
		case waiting:
			b.Waiting++
		case detached:
			b.Detached++
		case done:
		}
	}
	return b
}

type memorySource Memory

// Receive implements dispatch.Source.
func (s *memorySource) Receive(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
	m := (*Memory)(s)
	holder := m.join(1)
	defer m.join(-1)
	for {
		select {
		case <-stop: // checked first, as a broker does: what is given back does not come again
			return nil
		default:
		}
		message, next, changed := m.handOut(holder)
		if message != nil {
			each(message)
			continue
		}
		due := time.NewTimer(next)
		select {
		case <-ctx.Done():
			due.Stop()
			return nil
		case <-stop:
			due.Stop()
			return nil
		case <-changed:
		case <-due.C:
		}
		due.Stop()
	}
}

// join counts the receiving sources: a broker gives none of them more than its share while others receive too.
func (m *Memory) join(sources int) *int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources += sources
	m.wake()
	return new(int)
}

// handOut returns what is available, or when something next becomes due.
func (m *Memory) handOut(holder *int) (message dispatch.Message, next time.Duration, changed chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	next = time.Hour
	inHand, own := 0, 0
	for _, s := range m.stored {
		if s.state == held && s.due.After(now) {
			inHand++
			if s.holder == holder {
				own++
			}
		}
	}
	for i, s := range m.stored {
		if s.state == done {
			continue
		}
		if s.state != pending && s.due.After(now) {
			next = min(next, s.due.Sub(now))
			continue
		}
		if inHand >= MaxAckPending || own*m.sources >= MaxAckPending {
			break
		}
		s.delivery++
		s.state, s.holder, s.due = held, holder, now.Add(m.ackWait)
		return &memoryMessage{
			memory: m, stored: s, delivery: s.delivery, attempt: s.attempts + 1, behind: countPending(m.stored[i+1:]),
		}, 0, m.changed
	}
	return nil, next, m.changed
}

func countPending(messages []*stored) (count uint64) {
	for _, s := range messages {
		if s.state == pending {
			count++
		}
	}
	return count
}

type memoryMessage struct {
	memory            *Memory
	stored            *stored
	delivery, attempt int
	behind            uint64 // messages that were pending at the delivery
}

var errSettled = errors.New("message is settled")

func (m *memoryMessage) Event() (cloudevent.Event, error) {
	if m.stored.event == nil {
		return cloudevent.Event{}, errors.New("no event")
	}
	return *m.stored.event, nil
}

func (m *memoryMessage) Attempt() int { return m.attempt }

func (m *memoryMessage) Subject() string { return "" }

func (m *memoryMessage) Stored() time.Time { return m.stored.since }

func (m *memoryMessage) Waiting() time.Time { return m.stored.since }

func (m *memoryMessage) Pending() uint64 { return m.behind }

// StoreDeadLetter notes the dead letter. It need not be an event.
func (m *memoryMessage) StoreDeadLetter(_ context.Context, deadLetter dispatch.DeadLetter) error {
	ev, _ := m.Event()
	m.memory.mu.Lock()
	defer m.memory.mu.Unlock()
	m.memory.deadLetters = append(m.memory.deadLetters, StoredDeadLetter{ID: ev.ID, DeadLetter: deadLetter})
	return nil
}

func (m *memoryMessage) Ack(context.Context) error {
	return m.change(func() { m.stored.state = done })
}

func (m *memoryMessage) Reject(context.Context, string) error {
	return m.change(func() { m.stored.state = done })
}

func (m *memoryMessage) Retry(_ context.Context, delay time.Duration) error {
	return m.change(func() {
		m.stored.attempts = m.attempt
		m.stored.state, m.stored.due = waiting, time.Now().Add(delay)
	})
}

func (m *memoryMessage) Return(_ context.Context, delay time.Duration) error {
	return m.change(func() {
		m.stored.due = time.Now().Add(delay)
		switch {
		case delay == 0:
			m.stored.state = pending
		case m.stored.state == detached:
			m.stored.state = waiting
		}
	})
}

func (m *memoryMessage) Detach(_ context.Context, within time.Duration) error {
	return m.change(func() { m.stored.state, m.stored.due = detached, time.Now().Add(within) })
}

func (m *memoryMessage) Extend(context.Context) error {
	return m.change(func() {
		if m.stored.state == held { // the copy of a detached call is due when it is
			m.stored.due = time.Now().Add(m.memory.ackWait)
		}
	})
}

func (m *memoryMessage) Release() {}

func (m *memoryMessage) change(apply func()) error {
	m.memory.mu.Lock()
	defer m.memory.mu.Unlock()
	if m.stored.state == done || m.stored.delivery != m.delivery {
		return errSettled
	}
	apply()
	m.memory.wake()
	return nil
}
