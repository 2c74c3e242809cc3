package broker

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rouse-run/rouse/internal/fair"
)

// publication is what one caller publishes: messages that are stored in their order.
type publication struct {
	key      string // whose share of a round it takes
	messages []*nats.Msg
	errs     []error // of each message; to be read when done is closed
	bytes    int64
	deadline time.Time
	open     int // messages that are not answered
	done     chan struct{}
}

func newPublication(key string, messages []*nats.Msg, deadline time.Time) *publication {
	p := &publication{
		key: key, messages: messages, errs: make([]error, len(messages)), deadline: deadline,
		open: len(messages), done: make(chan struct{}),
	}
	for i, m := range messages {
		p.bytes += int64(m.Size())
		p.errs[i] = errOpen
	}
	return p
}

// Bounds of a round. nats-server takes no more messages in a batch, and writes the bytes of one twice before it confirms it.
const (
	maxRoundMessages = 1000
	maxRoundBytes    = 4 << 20
)

// load is how much publications are together.
type load struct {
	messages int
	bytes    int64
}

func (l *load) add(p *publication) {
	l.messages += len(p.messages)
	l.bytes += p.bytes
}

func (l *load) fits() bool { return l.messages <= maxRoundMessages && l.bytes <= maxRoundBytes }

func loadOf(publications []*publication) (l load) {
	for _, p := range publications {
		l.add(p)
	}
	return l
}

// cut splits a queue into what is published in the next round and what waits. When not all of it fits, keys take turns. What one
// caller publishes stays together, alone if it does not fit, and each key's order stays.
func cut(queue []*publication) (round, rest []*publication) {
	if whole := loadOf(queue); whole.fits() {
		return queue, nil
	}
	var turns fair.Queue[*publication]
	for _, p := range queue {
		turns.Push(p.key, p)
	}
	var l load
	taken := make(map[*publication]bool, len(queue))
	for p := range turns.All() {
		if l.add(p); len(round) > 0 && !l.fits() {
			break
		}
		round = append(round, p)
		taken[p] = true
	}
	for _, p := range queue {
		if !taken[p] {
			rest = append(rest, p)
		}
	}
	return round, rest
}

// pace chooses between an atomic batch and single messages for each round, by what rounds of its size have taken with this server:
// what a sync, a staged batch and a round trip cost differs by a factor of a hundred. The zero pace has seen nothing.
type pace struct {
	sizes [bits.UintSize]struct {
		single, batch time.Duration // for a message, an average; 0: not seen
		pause         time.Duration // until the one that takes longer is tried again
		trial         time.Time     // when that is
	}
}

const (
	// paceWeight of the past in the average.
	paceWeight = 7
	// firstPause after a trial of the way that takes longer is so many times what that took. Each trial that finds the same
	// doubles the pause.
	firstPause   = 50
	longestPause = time.Minute
)

// batch reports whether a round of n messages is to be a batch.
func (p *pace) batch(n int, now time.Time) bool {
	s := &p.sizes[bits.Len(uint(n))]
	switch {
	case n < 2:
		return false
	case s.batch == 0 || s.single == 0:
		return s.batch == 0
	case now.Before(s.trial):
		return s.batch < s.single
	default:
		return s.batch >= s.single
	}
}

// record adds what a round has taken.
func (p *pace) record(n int, batch bool, took time.Duration, now time.Time) {
	s := &p.sizes[bits.Len(uint(n))]
	taken, other := &s.single, s.batch
	if batch {
		taken, other = &s.batch, s.single
	}
	each, slower, weight := max(took/time.Duration(n), 1), *taken > other, int64(paceWeight)
	if slower {
		weight = 1 // it is rarely seen
	}
	if *taken == 0 {
		*taken = each
	} else {
		*taken = time.Duration((weight*int64(*taken) + int64(each)) / (weight + 1))
	}
	switch {
	case other == 0:
		return
	case slower && each >= other: // as before
		s.pause = min(max(2*s.pause, firstPause*took), longestPause)
	case slower || *taken > other:
		s.pause = firstPause * took
	default:
		return
	}
	s.trial = now.Add(s.pause)
}

// spoilers are the keys that have had batches refused, and until when what they publish is kept out of batches. A repeat now and
// then costs a second, and one who goes on is out for ever longer.
type spoilers map[string]*spoiler

type spoiler struct {
	until time.Time
	lasts time.Duration
}

const (
	shortestSpoilerTime = time.Second
	longestSpoilerTime  = time.Minute
	// maxSpoilers bounds them. Of those that are more, each batch that they spoil is published again singly.
	maxSpoilers = 1024
)

func (s spoilers) add(key string, now time.Time) {
	known := s[key]
	switch {
	case known == nil:
		if !s.makeRoom(now) {
			return
		}
		known = &spoiler{lasts: shortestSpoilerTime}
		s[key] = known
	case known.forgotten(now):
		known.lasts = shortestSpoilerTime
	case !now.Before(known.until): // it spoiled again
		known.lasts = min(2*known.lasts, longestSpoilerTime)
	}
	known.until = now.Add(known.lasts)
}

func (s spoilers) has(key string, now time.Time) bool {
	known := s[key]
	return known != nil && now.Before(known.until)
}

func (s spoilers) makeRoom(now time.Time) bool {
	if len(s) < maxSpoilers {
		return true
	}
	for key, known := range s {
		if known.forgotten(now) {
			delete(s, key)
		}
	}
	return len(s) < maxSpoilers
}

func (s *spoiler) forgotten(now time.Time) bool { return now.Sub(s.until) >= longestSpoilerTime }

// syncsBatchesOnce reports whether a nats-server syncs an atomic batch once. Those before 2.15 sync each of its messages.
func syncsBatchesOnce(serverVersion string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(serverVersion, "%d.%d", &major, &minor)
	return n == 2 && (major > 2 || major == 2 && minor >= 15)
}
