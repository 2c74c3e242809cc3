package admin

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/fair"
)

// Bounds of requests at a time. Each that reads holds a page or a dead letter, several times while it is written as JSON, until
// its client has read the answer; each that changes something holds a batch of dead letters.
const (
	readersAtATime  = 4
	changersAtATime = 2
	// followersAtATime leave connections to other requests. They hold a few records each.
	followersAtATime = 96
	waitingAtATime   = 64
	// slotTurn is how long a request keeps its slot while one for another namespace waits. A batch that is under way then is finished.
	slotTurn = 5 * time.Second
	// answerTimeout bounds how long a client may take to read an answer.
	answerTimeout = 10 * time.Second
	// slotWait bounds how long a request waits: longer than the turn, the batch and the answer of one before it.
	slotWait = 30 * time.Second
)

var (
	errNoSlot   = httpError{http.StatusServiceUnavailable, "this eventbridge answers as many such requests as it may at a time, try again"}
	errTurnOver = httpError{
		http.StatusServiceUnavailable,
		fmt.Sprintf("requests for other namespaces wait, so this one was stopped after %s: ask again for the rest", slotTurn),
	}
)

// slots bound the requests at a time, and share them by the namespace that is asked about; those about all namespaces are one more.
type slots struct {
	pool *fair.Pool
	turn time.Duration // how long a request keeps its slot while others wait; 0: to its end

	mu      sync.Mutex
	waiting map[string]int // requests by namespace
}

func newSlots(atATime int64, turn time.Duration) *slots {
	return &slots{pool: fair.NewPool(fair.Limits{Total: atATime, Waiting: waitingAtATime}), turn: turn, waiting: map[string]int{}}
}

// limit has a request wait for a slot, which it keeps until it is answered. The context that it passes on ends before, with the cause
// errTurnOver, when others wait.
func (s *slots) limit(ctx context.Context, namespace string, do func(ctx context.Context) error) error {
	if err := s.acquire(ctx, namespace); err != nil {
		return err
	}
	defer s.pool.Release(namespace, 1)
	if s.turn == 0 {
		return do(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.endTurn(ctx, cancel, namespace)
	return do(ctx)
}

func (s *slots) acquire(ctx context.Context, namespace string) error {
	waiting, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	s.wait(namespace, 1)
	defer s.wait(namespace, -1)
	switch err := s.pool.Acquire(waiting.Done(), namespace, 1); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return errNoSlot
	}
}

func (s *slots) wait(namespace string, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[namespace] += requests; s.waiting[namespace] == 0 {
		delete(s.waiting, namespace)
	}
}

func (s *slots) othersWait(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.waiting {
		if other != namespace {
			return true
		}
	}
	return false
}

// endTurn returns when the request is answered.
func (s *slots) endTurn(ctx context.Context, cancel context.CancelCauseFunc, namespace string) {
	turn := time.NewTicker(s.turn)
	defer turn.Stop()
	for {
		select {
		case <-turn.C:
			if s.othersWait(namespace) {
				cancel(errTurnOver)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
