package function

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/internal/fair"
)

// AskerLimits bound what is asked.
type AskerLimits struct {
	// AtATime is the number of questions to which servers are asked for an answer at a time.
	AtATime int64
	// Waiting is the number of further ones.
	Waiting int64
	// Timeout bounds one question.
	Timeout time.Duration
}

// Question asks a server something on behalf of an object.
type Question[A any] struct {
	// Key is comparable. Questions of the same key are the same.
	Key any
	// Namespace is the one that has named the server.
	Namespace string
	// Fresh is how old an answer may be that another object was given, or this one earlier. 0: each question is asked again.
	Fresh time.Duration
	// Ask asks the server until it answers or its context ends.
	Ask func(context.Context) (A, error)
}

// Asker asks questions. It is safe for concurrent use.
type Asker[A any] struct {
	limits AskerLimits
	pool   *fair.Pool
	events chan event.GenericEvent
	wake   chan struct{}

	mu      sync.Mutex
	known   map[any]*inquiry[A]
	of      map[types.NamespacedName]*inquiry[A] // the answer that an object waits for, or has not taken
	waiting []*inquiry[A]                        // those that Start has not taken
}

// inquiry is a question with its answer.
type inquiry[A any] struct {
	question Question[A]
	objects  map[types.NamespacedName]struct{} // that wait, or have not taken the answer
	answered time.Time                         // zero while there is no answer
	answer   A
	err      error
}

// NewAsker makes an Asker that asks nothing until Start.
func NewAsker[A any](limits AskerLimits) *Asker[A] {
	return &Asker[A]{
		limits: limits, pool: fair.NewPool(fair.Limits{Total: limits.AtATime, Waiting: limits.Waiting}),
		events: make(chan event.GenericEvent), wake: make(chan struct{}, 1),
		known: map[any]*inquiry[A]{}, of: map[types.NamespacedName]*inquiry[A]{},
	}
}

// Answer returns what a server has said. It reports false while there is no answer; then the object is an event when there is one. An
// object waits for one answer at a time: another question replaces the one before.
func (a *Asker[A]) Answer(object types.NamespacedName, question Question[A]) (answer A, known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.known[question.Key]
	if before := a.of[object]; before != nil && before != found {
		a.forget(object)
	}
	if found != nil && !found.answered.IsZero() {
		_, own := found.objects[object]
		if own || time.Since(found.answered) < question.Fresh {
			a.forget(object)
			return found.answer, true, found.err
		}
		// Those that have not taken it yet wait for the new one, too.
		found.question, found.answered = question, time.Time{}
		a.ask(found)
	}
	if found == nil {
		found = &inquiry[A]{question: question, objects: map[types.NamespacedName]struct{}{}}
		a.known[question.Key] = found
		a.ask(found)
	}
	found.objects[object] = struct{}{}
	a.of[object] = found
	return answer, false, nil
}

// Forget ends the interest of an object.
func (a *Asker[A]) Forget(object types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(object)
}

func (a *Asker[A]) forget(object types.NamespacedName) {
	if found := a.of[object]; found != nil {
		delete(a.of, object)
		delete(found.objects, object)
	}
}

func (a *Asker[A]) ask(question *inquiry[A]) {
	a.waiting = append(a.waiting, question)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Events has the objects for which there is an answer.
func (a *Asker[A]) Events() <-chan event.GenericEvent { return a.events }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (a *Asker[A]) NeedLeaderElection() bool { return true }

// Start asks until ctx ends.
func (a *Asker[A]) Start(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		a.mu.Lock()
		questions := a.waiting
		a.waiting = nil
		a.mu.Unlock()
		for _, question := range questions {
			asking.Go(func() { a.settle(ctx, question) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
		}
	}
}

// settle asks a question, and tells those that wait for its answer.
func (a *Asker[A]) settle(ctx context.Context, question *inquiry[A]) {
	a.mu.Lock()
	asked := question.question
	a.mu.Unlock()
	answer, err := a.inTurn(ctx, asked)
	if ctx.Err() != nil {
		return
	}
	for _, object := range a.note(question, answer, err) {
		named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
		select {
		case a.events <- event.GenericEvent{Object: named}:
		case <-ctx.Done():
			return
		}
	}
}

func (a *Asker[A]) inTurn(ctx context.Context, question Question[A]) (answer A, err error) {
	if err := a.pool.Acquire(ctx.Done(), question.Namespace, 1); err != nil {
		return answer, fmt.Errorf("ask a server that namespace %s has named: %w", question.Namespace, err)
	}
	defer a.pool.Release(question.Namespace, 1)
	started := time.Now()
	defer func() { a.pool.Charge(question.Namespace, time.Since(started).Milliseconds()) }()
	ctx, cancel := context.WithTimeout(ctx, a.limits.Timeout)
	defer cancel()
	return question.Ask(ctx)
}

// note keeps an answer and returns the objects that wait for it. Answers that nobody waits for any more are dropped when they are too old
// to be given to anybody.
func (a *Asker[A]) note(question *inquiry[A], answer A, err error) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	question.answered, question.answer, question.err = time.Now(), answer, err
	var objects []types.NamespacedName
	for object := range question.objects {
		objects = append(objects, object)
	}
	for key, other := range a.known {
		if !other.answered.IsZero() && len(other.objects) == 0 && time.Since(other.answered) >= other.question.Fresh {
			delete(a.known, key)
		}
	}
	return objects
}
