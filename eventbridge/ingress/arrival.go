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
	// atOnce is how much of a body is read before it counts. Each connection may hold so much.
	atOnce = 4 << 10
	// growth of the buffer of a body that goes on: what is taken of the budget is never more than so many times what has
	// arrived.
	growth = 16
	// arrivalGrace and slowestRate say how long a body may arrive that does not come at once.
	arrivalGrace = 10 * time.Second
	slowestRate  = 32 << 10 // bytes in a second
)

// read takes the body of a request into memory. What it holds of the budget has to be given back when the body is of no
// use any more, also after an error. It takes as the body arrives, whatever the request announces.
func (b *budget) read(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, held int64, err error) {
	size, announced := r.ContentLength, true
	switch {
	case size == 0:
		return nil, 0, nil
	case size > limit:
		return nil, 0, errTooLarge
	case size < 0:
		size, announced = limit+1, false // the byte more shows that it is too large
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
	r.Trailer = nil // which has no use, and takes memory for as long as the event is being stored
	return body, held, outcome(int64(len(body)), size, announced, err)
}

// outcome is nil for a whole body.
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

// arrival is a request whose body did not come at once.
type arrival struct {
	budget  *budget
	conn    *http.ResponseController
	pace    httplimit.Meter
	element *list.Element

	// Under the budget's lock.
	held    int64
	evicted bool
}

func (b *budget) begin(w http.ResponseWriter, held int64) *arrival {
	a := &arrival{budget: b, conn: http.NewResponseController(w), pace: httplimit.Meter{Rate: slowestRate, Ahead: time.Hour}, held: held}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.element = b.arriving.PushBack(a)
	return a
}

// end is called when the body is whole, or never will be.
func (a *arrival) end(whole bool) (held int64) {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.budget.arriving.Remove(a.element)
	if whole {
		_ = a.conn.SetReadDeadline(time.Time{}) // net/http goes on reading, to notice when the publisher hangs up
	}
	return a.held
}

// evict ends an arrival, once. The budget is locked.
func (a *arrival) evict() {
	if !a.evicted {
		a.evicted = true
		_ = a.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// readRest reads until the body has its size, or ends.
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
	if err := a.budget.acquireFrom(more, a); err != nil {
		return body, err
	}
	a.budget.mu.Lock()
	a.held += more
	a.budget.mu.Unlock()
	return append(make([]byte, 0, larger), body...), nil
}

// extend gives a body that comes fast enough the time for more.
func (a *arrival) extend() error {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if a.evicted {
		return errTooSlow
	}
	_ = a.conn.SetReadDeadline(a.pace.Begin(time.Now()).Add(arrivalGrace))
	return nil
}

// readError is the error that a publisher is answered with.
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
	// budgetWait bounds how long a request waits for the bytes of slower ones, which are given back by then.
	budgetWait = time.Second
	// budgetPollInterval is how often it polls.
	budgetPollInterval = time.Millisecond
)

// budget bounds the bytes of all requests that are in memory at a time. When it is exhausted, requests that are still
// arriving are evicted, those first that have been arriving longest: however many slow ones there are, they do not block a
// publisher that sends a request at once.
type budget struct {
	limit int64
	used  atomic.Int64

	mu       sync.Mutex
	arriving list.List // of *arrival, the oldest first
}

func (b *budget) acquire(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) release(n int64) { b.used.Add(-n) }

// acquireFrom takes bytes, if need be those of requests that have been arriving for longer than by. nil is one that has
// just come.
func (b *budget) acquireFrom(n int64, by *arrival) error {
	if b.acquire(n) {
		return nil
	}
	late := time.Now().Add(budgetWait)
	for b.evict(n, by) && time.Now().Before(late) {
		time.Sleep(budgetPollInterval)
		if b.acquire(n) {
			return nil
		}
	}
	if b.acquire(n) { // what came back since the last poll
		return nil
	}
	return errNoMemory
}

// evict ends the oldest arrivals that have to go for n bytes to be free, and none when that would not suffice.
func (b *budget) evict(n int64, by *arrival) bool {
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
