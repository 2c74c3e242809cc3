package broker

import (
	"slices"
	"time"
)

const (
	// sweepsPerTimeout is how often missing confirmations are looked for.
	sweepsPerTimeout = 20

	// A batch without an answer after this part of the timeout counts as refused: nats-server 2.15 sends none when a type becomes
	// full within a batch of several. Then the stream gets no batches for a second, for longer if the next one stalls too.
	stallsPerTimeout = 10
	afterStall       = time.Second
)

// disconnected ends all that was sent, because no confirmation can come.
func (r *rounds) disconnected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(func(*flight) bool { return true }, ErrNotConnected)
}

// sweepLater looks for missing confirmations soon, and then again while there are any.
func (r *rounds) sweepLater() {
	if !r.sweeping && len(r.flights)+len(r.queue)+r.apart.Len() > 0 {
		r.sweeping = true
		time.AfterFunc(r.timeout/sweepsPerTimeout, r.sweep)
	}
}

func (r *rounds) sweep() {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweeping = false
	r.queue = slices.DeleteFunc(r.queue, func(p *publication) bool { return r.expire(p, now) })
	for _, p := range slices.Collect(r.apart.All()) {
		if r.expire(p, now) {
			r.apart.Remove(p.key, func(other *publication) bool { return other == p })
		}
	}
	r.end(func(f *flight) bool { return f.expired(now) }, ErrTimeout)
	r.resendStalled(now)
	r.sweepLater()
}

// expire ends a publication that waits to be sent after its deadline.
func (r *rounds) expire(p *publication, now time.Time) bool {
	expired := !now.Before(p.deadline)
	if expired {
		r.answerAll(p, ErrTimeout)
	}
	return expired
}

// expired reports whether nobody waits for a flight any more.
func (f *flight) expired(now time.Time) bool {
	if f.batch == nil {
		return !now.Before(f.of.deadline)
	}
	return !slices.ContainsFunc(f.batch, func(p *publication) bool { return now.Before(p.deadline) })
}

// end answers flights that have no confirmation.
func (r *rounds) end(which func(*flight) bool, err error) {
	for key, f := range r.flights {
		switch {
		case !which(f):
			continue
		case f.batch == nil:
			r.answer(f.of, f.at, err)
		default:
			r.answerBatch(f.batch, err)
		}
		r.land(key, f)
	}
	r.proceed(time.Now())
}

// resendStalled publishes a batch that has no answer for long as single messages. It would hold up all publishers until the timeout,
// and the answers to single messages show whose fault it was.
func (r *rounds) resendStalled(now time.Time) {
	if !r.round.batch || r.round.stalled || now.Sub(r.round.began) < r.timeout/stallsPerTimeout {
		return
	}
	for key, f := range r.flights {
		if f.batch != nil {
			r.round.stalled = true
			r.stalled = min(max(2*r.stalled, afterStall), withoutBatches)
			r.retry = now.Add(r.stalled)
			r.land(key, f)
			r.sendSingly(f, inDoubt)
			break
		}
	}
	r.proceed(now)
}
