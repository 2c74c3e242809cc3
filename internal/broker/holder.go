package broker

import (
	"sync/atomic"
	"time"
)

const (
	// pacePeriod is for how long a source holds events ahead, at the pace at which its messages are released: longer than it
	// takes to get the next ones.
	pacePeriod = 10 * time.Millisecond
	// holdDelay is how soon a source asks again that held too much, if nothing is released and the limit is another then.
	holdDelay = time.Second
)

// HoldLimit is how many deliveries at a time a source gets messages for, and how many it may hold beside them.
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

// request is how many of a batch may be asked for, 0 for none yet.
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
