package activator

import (
	"container/list"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	// newsEvery is how often a waiting request checks whether the Function cannot start.
	newsEvery = 250 * time.Millisecond
	// rewatchPause is the pause before the pods of a Function are watched again after an error.
	rewatchPause = time.Second
)

// function is the state of a Function with current or recent requests.
type function struct {
	name types.NamespacedName
	all  *Activator
	log  logr.Logger
	pool *endpoint.Pool[struct{}]
	wait queue

	done chan struct{} // closed by end

	// Guarded by the mutex of Activator.
	requests int
	expiry   *time.Timer
}

func newFunction(name types.NamespacedName, all *Activator) *function {
	f := &function{name: name, all: all, done: make(chan struct{})}
	f.log = all.deps.Log.WithName("activate").WithValues("namespace", name.Namespace, "function", name.Name)
	f.pool = endpoint.NewPool(endpoint.Options[struct{}]{
		OnUsable:     f.wait.set,
		DialInterval: all.options.DialInterval,
		Dialer:       all.guard.Dialer(endpoint.ProbeTimeout),
	})
	return f
}

func (f *function) end() { close(f.done) }

// follow watches the pods' addresses until the Function is forgotten or ctx ends.
func (f *function) follow(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-f.done:
			stop()
		case <-ctx.Done():
		}
	}()
	defer f.pool.Dial(ctx)()
	for ctx.Err() == nil {
		err := f.all.deps.Endpoints.Watch(ctx, f.name, activation.OnlyPortOfService, f.pool.Apply)
		if err != nil && ctx.Err() == nil {
			f.log.Error(err, "cannot watch endpoints")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

// acquire waits for a ready pod and counts a request at it. waited reports whether it had to wait.
func (f *function) acquire(ctx context.Context, e *exchange) (member *endpoint.Member[struct{}], waited bool, refused *refusal) {
	for {
		turn, ok := f.wait.enter(f.all.options.MaxWaiting)
		if !ok {
			return nil, waited, tooMany(f.name, f.all.options.MaxWaiting)
		}
		if turn != nil {
			waited = true
			if refused := f.await(ctx, turn, e); refused != nil {
				return nil, waited, refused
			}
		}
		if member := f.pool.Pick(); member != nil {
			e.stopWaiting()
			return member, waited, nil
		}
		f.wait.answered() // the last pod was removed meanwhile
	}
}

// await waits for the request's turn.
func (f *function) await(ctx context.Context, turn chan struct{}, e *exchange) *refusal {
	refused := e.startWaiting()
	if refused == nil {
		refused = f.hold(ctx, turn, e.began, e.deadline)
	}
	if refused != nil && !f.wait.leave(turn) {
		f.wait.answered() // the turn came meanwhile: pass it on
	}
	return refused
}

func (f *function) hold(ctx context.Context, turn chan struct{}, began, deadline time.Time) *refusal {
	timer, news := time.NewTimer(time.Until(deadline)), time.NewTicker(newsEvery)
	defer timer.Stop()
	defer news.Stop()
	for {
		known := f.all.deps.Functions.Condition(f.name)
		if known.Broken != "" {
			return cannotStart(f.name, known.Broken)
		}
		select {
		case <-turn:
			return nil
		case <-ctx.Done():
			if !ranOut(ctx) {
				return gone(ctx.Err())
			}
			return tooSlow(f.name, time.Since(began), known.Reason)
		case <-timer.C:
			return tooSlow(f.name, time.Since(began), known.Reason)
		case <-known.Changed:
		case <-news.C:
		}
	}
}

// burst bounds the waiting requests that one pod gets before it has begun to answer one of them. Node.js accepts more
// and answers all of them late; Python has 50 threads.
const burst = 100

// queue is a FIFO queue of requests that wait for a pod.
type queue struct {
	mu         sync.Mutex
	waiting    list.List // of chan struct{}
	unanswered int       // requests that left the queue for a pod that has not begun to answer
	usable     int       // pods
}

// enter returns nil if a request may proceed at once, and otherwise a channel that is closed when it may. It returns
// false when the queue is full.
func (q *queue) enter(limit int) (turn chan struct{}, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() == 0 && q.usable > 0 {
		q.unanswered++
		return nil, true
	}
	if q.waiting.Len() >= limit {
		return nil, false
	}
	turn = make(chan struct{})
	q.waiting.PushBack(turn)
	return turn, true
}

// idle reports whether a request would have to wait for a pod.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.usable == 0
}

// leave removes a waiting request. It returns false when its turn came just before.
func (q *queue) leave(turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.waiting.Front(); e != nil; e = e.Next() {
		if e.Value == turn {
			q.waiting.Remove(e)
			return true
		}
	}
	return false
}

// answered reports that a pod has begun to answer a request from the queue, or that the request ended before.
func (q *queue) answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unanswered--
	q.admit()
}

// set sets the number of ready pods.
func (q *queue) set(usable int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.usable = usable
	q.admit()
}

func (q *queue) admit() {
	for q.waiting.Len() > 0 && q.unanswered < q.usable*burst {
		front := q.waiting.Front()
		q.waiting.Remove(front)
		if turn, ok := front.Value.(chan struct{}); ok {
			close(turn)
		}
		q.unanswered++
	}
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len()
}

const (
	// waitingCost is the memory of a waiting request: its connection's buffers, its goroutines, and headers of common
	// size.
	waitingCost = 32 << 10
	// A gateway wakes one Function concurrently for this many places of waiting requests, and one caller an eighth of
	// them.
	placesPerWake        = 4
	placesPerCallersWake = 32
)

// waiting shares out what Functions without a pod cost the others: the places of waiting requests, and the Functions
// that are woken concurrently. Each has a share per namespace of the Functions and per address of the caller.
type waiting struct {
	places, wakes shares

	mu    sync.Mutex
	woken map[wake]int // number of requests that wait for it
}

// shares are the pools of namespaces and of callers.
type shares struct{ namespaces, callers *fair.Pool }

// wake is a Function that is being woken, by one caller or by any.
type wake struct {
	function types.NamespacedName
	caller   string // empty: any
}

func newWaiting(bytes int64) *waiting {
	places := bytes / waitingCost
	wakes, most := max(1, places/placesPerWake), max(1, places/placesPerCallersWake)
	return &waiting{
		places: shares{fair.NewPool(fair.Limits{Total: places}), fair.NewPool(fair.Limits{Total: places})},
		wakes:  shares{fair.NewPool(fair.Limits{Total: wakes}), fair.NewPool(fair.Limits{Total: places, PerKey: most})},
		woken:  map[wake]int{},
	}
}

// enter takes a place for a request, which leave releases.
func (w *waiting) enter(function types.NamespacedName, from httplimit.Key) *refusal {
	if !w.places.namespaces.TryAcquire(function.Namespace, 1) {
		return overShare(function, "as many requests wait for Functions of its namespace as may")
	}
	if !from.Unshared && !w.places.callers.TryAcquire(from.Name, 1) {
		w.places.namespaces.Release(function.Namespace, 1)
		return overShare(function, "as many requests of your address wait for Functions as may")
	}
	if refused := w.wake(function, from); refused != nil {
		w.vacate(function, from)
		return refused
	}
	return nil
}

func (w *waiting) leave(function types.NamespacedName, from httplimit.Key) {
	w.mu.Lock()
	w.rest(wake{function: function}, w.wakes.namespaces, function.Namespace)
	if !from.Unshared {
		w.rest(wake{function, from.Name}, w.wakes.callers, from.Name)
	}
	w.mu.Unlock()
	w.vacate(function, from)
}

func (w *waiting) vacate(function types.NamespacedName, from httplimit.Key) {
	w.places.namespaces.Release(function.Namespace, 1)
	if !from.Unshared {
		w.places.callers.Release(from.Name, 1)
	}
}

// wake counts a request for a Function, which the first one wakes.
func (w *waiting) wake(function types.NamespacedName, from httplimit.Key) *refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.rouse(wake{function: function}, w.wakes.namespaces, function.Namespace) {
		return overShare(function, "as many Functions of its namespace are being woken as may be at a time")
	}
	if !from.Unshared && !w.rouse(wake{function, from.Name}, w.wakes.callers, from.Name) {
		w.rest(wake{function: function}, w.wakes.namespaces, function.Namespace)
		return overShare(function, "your address is waking as many Functions as it may at a time")
	}
	return nil
}

func (w *waiting) rouse(what wake, from *fair.Pool, key string) bool {
	if w.woken[what] == 0 && !from.TryAcquire(key, 1) {
		return false
	}
	w.woken[what]++
	return true
}

func (w *waiting) rest(what wake, from *fair.Pool, key string) {
	if w.woken[what]--; w.woken[what] == 0 {
		delete(w.woken, what)
		from.Release(key, 1)
	}
}

// requests returns the number of waiting requests.
func (w *waiting) requests() int64 {
	held, _ := w.places.namespaces.Stats()
	return held
}

func overShare(function types.NamespacedName, why string) *refusal {
	return &refusal{overloaded, http.StatusServiceUnavailable, time.Second, fmt.Sprintf("Function %s is asleep, and %s", function, why)}
}
