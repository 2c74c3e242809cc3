package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/fair"
)

// Headers of a message in an atomic batch.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

const (
	// maxApart messages of spoilers are published at a time, so that rounds need not wait for many of them.
	maxApart = 16
	// A message that no server takes is sent again: a stream that elects a leader has none for a moment.
	noStreamRetries = 2
	noStreamWait    = 250 * time.Millisecond
	// withoutBatches is how long a stream that takes no batches is not asked again.
	withoutBatches = time.Minute
)

// rounds publishes what arrives while the last round is being stored as the next one. It publishes a round as an atomic batch where
// that pays, otherwise as single messages, and a batch that is refused or has no answer once more as single messages: nothing of it
// is stored, or what is stored is recognised by its id.
type rounds struct {
	publish func(*nats.Msg) error // sends a message
	stream  string                // that has to confirm; any when empty
	timeout time.Duration
	release func(*publication) // called when all its messages are answered
	replies string             // what the subjects of confirmations begin with
	batches string             // what the ids of batches begin with

	mu       sync.Mutex
	queue    []*publication
	apart    fair.Queue[*publication] // of spoilers
	flights  map[uint64]*flight       // by the rest of the subject of their confirmation
	last     uint64                   // key of the last flight
	round    round
	aparts   int // messages of spoilers in flight
	pace     pace
	spoilers spoilers
	single   bool          // the server syncs each message of a batch
	retry    time.Time     // until then the stream takes no batches
	stalled  time.Duration // how long it got none after the last stall; 0 once a batch is confirmed
	sweeping bool
}

func newRounds(o PublisherOptions, publish func(*nats.Msg) error, replies string, release func(*publication)) *rounds {
	const unique = 8
	return &rounds{
		publish: publish, stream: o.Stream, timeout: o.Timeout, release: release, replies: replies,
		batches: replies[max(len(replies)-1-unique, 0) : len(replies)-1],
		flights: map[uint64]*flight{}, spoilers: spoilers{},
	}
}

// round is the one in flight.
type round struct {
	open     int // confirmations that are missing
	messages int
	batch    bool
	stalled  bool // the batch has had no answer
	began    time.Time
}

// flight is what is sent and has one confirmation: a message, or the batch of several callers.
type flight struct {
	of      *publication
	at      int // place of the message
	kind    kind
	retries int

	batch []*publication // instead of a message
	id    string
	count int
}

// kind is what waits for a flight.
type kind int

const (
	alone   kind = iota // nothing but its caller
	inRound             // the next round
	inDoubt             // the same, for a message that its batch may have stored
	inApart             // the next message of a spoiler
)

// submit publishes soon.
func (r *rounds) submit(p *publication) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.single || now.Before(r.retry):
		r.sendEach(p, alone)
	case r.spoilers.has(p.key, now):
		r.apart.Push(p.key, p)
		r.next(now)
	default:
		r.queue = append(r.queue, p)
		r.next(now)
	}
	r.sweepLater()
}

// withdraw ends a publication whose caller does not wait any more. What was sent of it is on its way.
func (r *rounds) withdraw(p *publication, err error) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.queue, p); i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
		r.answerAll(p, err)
	} else if r.apart.Remove(p.key, func(other *publication) bool { return other == p }) {
		r.answerAll(p, err)
	}
	errs := slices.Clone(p.errs)
	for i := range errs {
		if errs[i] == errOpen { //nolint:errorlint // it is a mark
			errs[i] = err
		}
	}
	return errs
}

// next sends what may be sent now.
func (r *rounds) next(now time.Time) {
	for r.round.open == 0 && len(r.queue) > 0 {
		var taken []*publication
		taken, r.queue = cut(r.queue)
		l := loadOf(taken)
		r.round = round{messages: l.messages, began: now, batch: l.fits() && !now.Before(r.retry) && r.pace.batch(l.messages, now)}
		if r.round.batch {
			r.sendBatch(taken)
		} else {
			for _, p := range taken {
				r.sendEach(p, inRound)
			}
		}
		if r.round.open == 0 { // nothing could be sent
			r.round = round{}
		}
	}
	for r.aparts < maxApart {
		p, ok := r.apart.Pop()
		if !ok {
			return
		}
		r.sendEach(p, inApart)
	}
}

// sendEach sends single messages. Behind one that cannot be sent no other is.
func (r *rounds) sendEach(p *publication, kind kind) {
	for i, m := range p.messages {
		if err := r.send(&flight{of: p, at: i, kind: kind}, m); err != nil {
			for ; i < len(p.messages); i++ {
				r.answer(p, i, err)
			}
			return
		}
	}
}

func (r *rounds) sendBatch(taken []*publication) {
	f := &flight{batch: taken, kind: inRound, id: r.batches + strconv.FormatUint(r.last+1, 36)}
	id := []string{f.id}
	var last *nats.Msg
	for _, p := range taken {
		for _, m := range p.messages {
			f.count++
			m.Header[headerBatchID], m.Header[headerBatchSequence] = id, []string{strconv.Itoa(f.count)}
			if last != nil {
				if err := r.publish(last); err != nil {
					r.answerBatch(taken, mapError(err))
					return
				}
			}
			last = m
		}
	}
	last.Header[headerBatchCommit] = []string{"1"}
	if err := r.send(f, last); err != nil {
		r.answerBatch(taken, err)
	}
}

// send sends the message whose confirmation is the flight's.
func (r *rounds) send(f *flight, m *nats.Msg) error {
	r.last++
	m.Reply = r.replies + strconv.FormatUint(r.last, 36)
	if err := r.publish(m); err != nil {
		return mapError(err)
	}
	r.flights[r.last] = f
	r.count(f, 1)
	return nil
}

func (r *rounds) count(f *flight, n int) {
	switch f.kind {
	case inRound, inDoubt:
		r.round.open += n
	case inApart:
		r.aparts += n
	case alone:
	}
}

// confirmed takes what the server answered.
func (r *rounds) confirmed(m *nats.Msg) {
	key, err := strconv.ParseUint(m.Subject[len(r.replies):], 36, 64)
	if err != nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flights[key]
	if f == nil {
		return
	}
	if len(m.Data) == 0 && f.batch == nil && f.retries < noStreamRetries {
		f.retries++
		time.AfterFunc(noStreamWait, func() { r.sendAgain(key, f) })
		return
	}
	r.land(key, f)
	c, err := r.read(m)
	if f.batch == nil {
		r.messageAnswered(f, c, err, now)
	} else {
		r.batchAnswered(f, c, err, now)
	}
	r.proceed(now)
}

func (r *rounds) messageAnswered(f *flight, c confirmation, err error, now time.Time) {
	repeat := c.Duplicate || errors.Is(err, ErrInProcess)
	if c.Error != nil && !repeat || repeat && f.kind != inDoubt {
		r.spoilers.add(f.of.key, now)
	}
	r.answer(f.of, f.at, err)
}

func (r *rounds) batchAnswered(f *flight, c confirmation, err error, now time.Time) {
	if err == nil && c.Batch == f.id && c.Count == f.count {
		r.stalled = 0
		r.answerBatch(f.batch, nil)
		return
	}
	var code jetstream.ErrorCode
	if c.Error != nil {
		code = c.Error.ErrorCode
	}
	if err == nil || code == codeBatchesDisabled || code == codeTooManyBatches {
		r.retry = now.Add(withoutBatches)
	}
	if code == codeBatchRepeat || code == codeInProcess {
		r.sendSingly(f, inRound) // nothing of it is stored, so its repeats are to blame
	} else {
		r.sendSingly(f, inDoubt) // it may have failed while it was stored
	}
}

// proceed ends a round whose last confirmation has come, and sends what may be sent now.
func (r *rounds) proceed(now time.Time) {
	if r.round.open == 0 && r.round.messages > 0 {
		if !r.round.stalled {
			r.pace.record(r.round.messages, r.round.batch, now.Sub(r.round.began), now)
		}
		r.round = round{}
	}
	r.next(now)
}

// land takes a flight out of those that wait for their confirmation.
func (r *rounds) land(key uint64, f *flight) {
	delete(r.flights, key)
	r.count(f, -1)
}

// sendSingly publishes what a batch held as single messages, each with its id.
func (r *rounds) sendSingly(f *flight, kind kind) {
	for _, p := range f.batch {
		for _, m := range p.messages {
			for _, name := range []string{headerBatchID, headerBatchSequence, headerBatchCommit} {
				delete(m.Header, name)
			}
		}
		r.sendEach(p, kind)
	}
}

// sendAgain sends a message that no stream has taken.
func (r *rounds) sendAgain(key uint64, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights[key] != f {
		return
	}
	if err := r.publish(f.of.messages[f.at]); err != nil {
		r.land(key, f)
		r.answer(f.of, f.at, mapError(err))
		r.proceed(time.Now())
	}
}

// confirmation is what a stream answers.
type confirmation struct {
	Error     *jetstream.APIError `json:"error"`
	Stream    string              `json:"stream"`
	Duplicate bool                `json:"duplicate"`
	Batch     string              `json:"batch"`
	Count     int                 `json:"count"`
}

func (r *rounds) read(m *nats.Msg) (c confirmation, err error) {
	if len(m.Data) == 0 {
		return c, fmt.Errorf("%w: no stream has taken the event", ErrNoStream)
	}
	if err := json.Unmarshal(m.Data, &c); err != nil {
		return c, fmt.Errorf("read the confirmation: %w", err)
	}
	switch {
	case c.Error != nil:
		return c, mapAPIError(c.Error)
	case r.stream != "" && c.Stream != r.stream:
		return c, fmt.Errorf("%w: the event was stored in stream %q instead", ErrNoStream, c.Stream)
	}
	return c, nil
}

var errOpen = errors.New("not answered")

func (r *rounds) answer(p *publication, i int, err error) {
	p.errs[i] = err
	if p.open--; p.open == 0 {
		r.release(p)
		close(p.done)
	}
}

func (r *rounds) answerAll(p *publication, err error) {
	for i := range p.messages {
		r.answer(p, i, err)
	}
}

func (r *rounds) answerBatch(batch []*publication, err error) {
	for _, p := range batch {
		r.answerAll(p, err)
	}
}

// connected chooses how to publish by the server of the new connection.
func (r *rounds) connected(serverVersion string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.single, r.retry, r.stalled, r.pace = !syncsBatchesOnce(serverVersion), time.Time{}, 0, pace{}
}
