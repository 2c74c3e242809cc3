package timers

import (
	"context"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/fair"
)

// workers act on what is due at a time. Most of the time they wait for the store.
const workers = 256

// finishing is how long work in progress may go on after the end of the process has begun, so that an event is stored and its cursor, too.
const finishing = 2 * time.Second

// crew does the work on what is due, in turn by namespace.
type crew struct {
	mu      sync.Mutex
	queue   fair.Queue[func(context.Context)]
	changed *sync.Cond
	ended   bool
}

func newCrew() *crew {
	c := &crew{}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// do has one worker do the work.
func (c *crew) do(namespace string, work func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.Push(namespace, work)
	c.changed.Signal()
}

// run returns when ctx has ended and the work in progress is done. What waits then is left undone.
func (c *crew) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = true
		c.changed.Broadcast()
	})()
	finished, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(finishing, cancel) })()
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				work, ok := c.next()
				if !ok {
					return
				}
				work(finished)
			}
		})
	}
	working.Wait()
}

func (c *crew) next() (func(context.Context), bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ended {
		if work, ok := c.queue.Pop(); ok {
			return work, true
		}
		c.changed.Wait()
	}
	return nil, false
}
