package ingress

import (
	"container/list"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/httplimit"
)

var (
	errTooSlow  = errors.New("the request did not arrive in time")
	errTooLarge = errors.New("http: request body too large") // Kyma's words
	errCutShort = errors.New("the request ended before its body did")
)

const (
	// atOnce is how much of a body is read before it counts. Each connection may hold that much.
	atOnce = 4 << 10
	// growth bounds the buffer of a body that is still arriving: the acquired memory is at most this multiple of what
	// has arrived.
	growth = 16
	// arrivalGrace and slowestRate bound how long a body may arrive.
	arrivalGrace = 10 * time.Second
	slowestRate  = 32 << 10 // bytes in a second
)

// read reads the body of a request into memory. The caller releases held bytes when it no longer needs the body, also
// after an error. Memory is acquired as the body arrives, whatever length the request announces.
func (b *bodyMemory) read(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, held int64, err error) {
	size, announced := r.ContentLength, true
	switch {
	case size == 0:
		return nil, 0, nil
	case size > limit:
		return nil, 0, errTooLarge
	case size < 0:
		size, announced = limit+1, false // the additional byte shows that it is too large
	}
	body = make([]byte, min(size, atOnce))
	n, err := r.Body.Read(body)
	body = body[:n]
	if full := b.acquireFrom(int64(cap(body)), nil); full != nil {
		return nil, 0, full
	}
	held = int64(cap(body))
	if int64(n) < size && err == nil {
		a := b.begin(w, held)
		body, err = a.readRest(r.Body, body, size)
		held = a.end(outcome(int64(len(body)), size, announced, err) == nil)
	}
	r.Trailer = nil // unused, and would be held while the event is being stored
	return body, held, outcome(int64(len(body)), size, announced, err)
}

// Bodies reads the bodies of requests that are no publishers' into memory of their own, with the bounds of publishers'.
type Bodies struct{ memory bodyMemory }

// NewBodies returns Bodies of at most so many bytes together.
func NewBodies(limit int64) *Bodies { return &Bodies{bodyMemory{limit: limit}} }

// Why a body was not read. Another error means that it ended early.
var (
	ErrTooLarge = errTooLarge
	ErrTooSlow  = errTooSlow
	ErrNoMemory = errNoMemory
)

// Read reads a body. The caller calls release when it no longer needs it, also after an error.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
	body, held, err := b.memory.read(w, r, limit)
	return body, func() { b.memory.release(held) }, err
}

// outcome returns nil for a complete body.
func outcome(arrived, size int64, announced bool, err error) error {
	switch {
	case arrived == size && announced:
		return nil
	case arrived == size:
		return errTooLarge
	case errors.Is(err, io.EOF) && !announced:
		return nil
	default:
		return readError(err)
	}
}

// arrival is a request whose body did not arrive at once.
type arrival struct {
	memory  *bodyMemory
	conn    *http.ResponseController
	pace    httplimit.Meter
	element *list.Element

	// Guarded by the memory's mutex.
	held    int64
	evicted bool
}

func (b *bodyMemory) begin(w http.ResponseWriter, held int64) *arrival {
	a := &arrival{memory: b, conn: http.NewResponseController(w), pace: httplimit.Meter{Rate: slowestRate, Ahead: time.Hour}, held: held}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.element = b.arriving.PushBack(a)
	return a
}

// end is called when the body is complete or abandoned.
func (a *arrival) end(whole bool) (held int64) {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	a.memory.arriving.Remove(a.element)
	if whole {
		_ = a.conn.SetReadDeadline(time.Time{}) // net/http continues reading, to notice when the publisher disconnects
	}
	return a.held
}

// evict ends an arrival, once. The caller holds the memory's mutex.
func (a *arrival) evict() {
	if !a.evicted {
		a.evicted = true
		_ = a.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// readRest reads until the body is complete or ends.
func (a *arrival) readRest(from io.Reader, body []byte, size int64) ([]byte, error) {
	for int64(len(body)) < size {
		if len(body) == cap(body) {
			var err error
			if body, err = a.grow(body, size); err != nil {
				return body, err
			}
		}
		if err := a.extend(); err != nil {
			return body, err
		}
		n, err := from.Read(body[len(body):cap(body)])
		a.pace.End(time.Now(), n)
		body = body[:len(body)+n]
		if err != nil {
			return body, err
		}
	}
	return body, nil
}

func (a *arrival) grow(body []byte, size int64) ([]byte, error) {
	larger := min(size, growth*int64(cap(body)))
	more := larger - int64(cap(body))
	if err := a.memory.acquireFrom(more, a); err != nil {
		return body, err
	}
	a.memory.mu.Lock()
	a.held += more
	a.memory.mu.Unlock()
	return append(make([]byte, 0, larger), body...), nil
}

// extend gives a body that arrives fast enough more time.
func (a *arrival) extend() error {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	if a.evicted {
		return errTooSlow
	}
	_ = a.conn.SetReadDeadline(a.pace.Begin(time.Now()).Add(arrivalGrace))
	return nil
}

// readError returns the error that the publisher gets.
func readError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTooSlow
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errCutShort
	default:
		return err
	}
}

var errNoMemory = errors.New("too many bytes of other requests are being stored")

const (
	// memoryWait bounds how long a request waits for the memory of slower ones, which they release by then.
	memoryWait = time.Second
	// memoryPollInterval is the pause between two attempts.
	memoryPollInterval = time.Millisecond
)

// bodyMemory bounds the bytes of all request bodies in memory. When it is exhausted, the requests that have been
// arriving longest are evicted, so that no number of slow publishers blocks one that sends at once.
type bodyMemory struct {
	limit int64
	used  atomic.Int64

	mu       sync.Mutex
	arriving list.List // of *arrival, the oldest first
}

func (b *bodyMemory) acquire(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *bodyMemory) release(n int64) { b.used.Add(-n) }

// acquireFrom acquires bytes, evicting if necessary requests that have been arriving for longer than by. A nil by has
// just arrived.
func (b *bodyMemory) acquireFrom(n int64, by *arrival) error {
	if b.acquire(n) {
		return nil
	}
	late := time.Now().Add(memoryWait)
	for b.evict(n, by) && time.Now().Before(late) {
		time.Sleep(memoryPollInterval)
		if b.acquire(n) {
			return nil
		}
	}
	if b.acquire(n) { // released since the last poll
		return nil
	}
	return errNoMemory
}

// evict ends the oldest arrivals until n bytes are free, and none if that would not suffice.
func (b *bodyMemory) evict(n int64, by *arrival) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if by != nil && by.evicted {
		return false
	}
	missing := b.used.Load() + n - b.limit
	last := b.arriving.Front()
	for ; missing > 0 && last != nil && last.Value.(*arrival) != by; last = last.Next() {
		missing -= last.Value.(*arrival).held
	}
	if missing > 0 {
		return false
	}
	for e := b.arriving.Front(); e != last; e = e.Next() {
		e.Value.(*arrival).evict()
	}
	return true
}
