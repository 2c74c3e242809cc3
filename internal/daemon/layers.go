package daemon

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// RunOn runs work on top of what it stands on (caches, a metrics listener): that starts first, outlives the
// drain of work, and is ended when work has returned. When a part of it ends early, work is told to drain.
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
	var group errgroup.Group
	for _, part := range ground {
		group.Go(func() error {
			note(part(groundCtx))
			endWork()
			return nil
		})
	}
	note(work(workCtx))
	endGround()
	_ = group.Wait() // its parts note their errors themselves
	return first
}
