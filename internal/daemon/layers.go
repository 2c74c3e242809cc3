package daemon

import (
	"context"
	"sync"
)

// RunOn runs work on top of what it stands on (caches, a metrics listener): that starts first, outlives the
// drain of work, and is ended when work has returned. When a part of it ends early, work is drained.
// The first error is returned.
func RunOn(ctx context.Context, work func(context.Context) error, ground ...func(context.Context) error) error {
	workCtx, endWork := context.WithCancel(ctx)
	defer endWork()
	groundCtx, endGround := context.WithCancel(context.WithoutCancel(ctx))
	defer endGround()

	var once sync.Once
	var first error
	note := func(err error) {
		if err != nil {
			once.Do(func() { first = err })
		}
	}
	var parts sync.WaitGroup
	for _, part := range ground {
		parts.Go(func() {
			note(part(groundCtx))
			endWork()
		})
	}
	note(work(workCtx))
	endGround()
	parts.Wait()
	return first
}
