package broker

import (
	"sync/atomic"
	"time"
)

// MemoryBudget is the memory that a Source may fill with messages. Sources may share one.
type MemoryBudget interface {
	// Acquire returns how many bytes it acquired: up to most, or 0 if fewer than the least are free.
	Acquire(least, most int64) int64
	// Overdraw acquires bytes even if they are not free, and reports whether it did: few may do so at a time.
	Overdraw(bytes int64) bool
	// Release releases bytes.
	Release(bytes int64)
	// Freed has a value when bytes were released after some were refused.
	Freed() <-chan struct{}
}

// unlimitedBudget is the MemoryBudget of a Source without one.
type unlimitedBudget struct{}

func (unlimitedBudget) Acquire(_, most int64) int64 { return most }
func (unlimitedBudget) Overdraw(int64) bool         { return true }
func (unlimitedBudget) Release(int64)               {}
func (unlimitedBudget) Freed() <-chan struct{}      { return nil }

// What a message that is held takes: a goroutine, a connection and its buffers, and the event as it is stored, decoded
// and written.
const (
	messageOverhead = 16 << 10
	messageFactor   = 3
)

// MessageMemory is the memory that a message of so many bytes takes.
func MessageMemory(size int) int64 { return messageOverhead + messageFactor*int64(size) }

const (
	// IdleMemory is what the standing request of a Source without messages takes.
	IdleMemory = 64 << 10
	// usualSize is what a message is expected to have before one has come, and sizeSlack what one has beside its
	// header and data.
	usualSize = 1 << 10
	sizeSlack = 1 << 10
	// sizeDecay is the part by which the size that is expected shrinks with each smaller message.
	sizeDecay = 64
)

// batchSizer is how much a source asks for at a time: little after a rest, and more while requests are used up quickly.
type batchSizer struct {
	batch int // at most
	want  int
	size  int // of a message
}

func newBatchSizer(batch int) batchSizer {
	return batchSizer{batch: batch, want: int(max(IdleMemory/MessageMemory(usualSize), 1)), size: usualSize}
}

// observe records the size of a message.
func (a *batchSizer) observe(size int) {
	a.size = max(size, a.size-a.size/sizeDecay, usualSize)
}

// completed records that all of a request has come, and whether that was quick.
func (a *batchSizer) completed(quick bool) {
	if quick {
		a.want = min(2*a.want, a.batch)
	} else {
		a.want = max(a.want/2, 1)
	}
}

// reset records that nothing has come for long.
func (a *batchSizer) reset() { *a = newBatchSizer(a.batch) }

// bounds are the least and the most that a request is to take.
func (a *batchSizer) bounds() (least, most int64) {
	least = MessageMemory(a.size)
	return least, max(least*int64(a.want), IdleMemory)
}

// request is what may be asked for within so many bytes of memory.
func (a *batchSizer) request(memory int64) (messages, bytes int) {
	messages = int(min(max(memory/MessageMemory(a.size), 1), int64(max(a.want, int(IdleMemory/MessageMemory(a.size)))), int64(a.batch)))
	return messages, max(int(memory-int64(messages)*messageOverhead)/messageFactor, 1)
}

const (
	// pacePeriod is for how long a source holds events ahead, at the pace at which its messages are released: longer than it
	// takes to get the next ones.
	pacePeriod = 10 * time.Millisecond
	// holdDelay is the delay after which a source asks again that held too much, if nothing is released and the limit is another then.
	holdDelay = time.Second
)

// HoldLimit returns the number of concurrent deliveries of a source, and how many messages it may hold in addition.
type HoldLimit func() (deliveries, ahead int)

// holder bounds the messages that one source holds of a consumer which others share, so that it does not keep from them
// what it cannot deliver yet. A quick sink has more of them held for it than a slow one.
type holder struct {
	limit HoldLimit
	freed chan struct{} // has a value after a message was freed
	held  atomic.Int64

	// Of the time since then, for the pace.
	since    time.Time
	released atomic.Int64
	pace     int // messages released in a period
}

func newHolder(limit HoldLimit) *holder {
	return &holder{limit: limit, freed: make(chan struct{}, 1), since: time.Now()}
}

// request returns how many messages of a batch may be requested now; 0 means none yet.
func (h *holder) request(batch int) int {
	if h == nil {
		return batch
	}
	h.measure(time.Now())
	deliveries, ahead := h.limit()
	return min(batch, askFor(deliveries, min(ahead, max(h.pace, 1)), int(h.held.Load())))
}

// askFor asks for nothing before half of what may be held ahead is free: requests for single messages cost more than they bring.
func askFor(deliveries, ahead, held int) int {
	free := deliveries + ahead - held
	if free < max(ahead/2, 1) {
		return 0
	}
	return free
}

// measure updates the pace, which falls slowly in bursts.
func (h *holder) measure(now time.Time) {
	elapsed := now.Sub(h.since)
	if elapsed < pacePeriod {
		return
	}
	pace := int(h.released.Swap(0) * int64(pacePeriod) / int64(elapsed))
	if elapsed < time.Second {
		pace = max(pace, h.pace/2)
	}
	h.pace, h.since = pace, now
}

// add counts a message as held, until it is freed once.
func (h *holder) add(m *Message) {
	if h != nil {
		h.held.Add(1)
		m.counted.Store(true)
	}
}

// free ends the hold on a message, if there is one.
func (h *holder) free(m *Message) {
	if h == nil || !m.counted.CompareAndSwap(true, false) {
		return
	}
	h.held.Add(-1)
	h.released.Add(1)
	select {
	case h.freed <- struct{}{}:
	default:
	}
}
