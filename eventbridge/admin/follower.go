package admin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rouse-run/rouse/eventbridge/identity"
)

const (
	// followAgain is how often a follower's right is looked at.
	followAgain = 30 * time.Second
	// followFor bounds a follower whose token has ended meanwhile, which is not looked at again.
	followFor = time.Hour
)

// whileAllowed is a context that ends when the user has no right any more. One failed check is forgiven, so that a restart of
// the API server ends nothing.
func (h *Handler) whileAllowed(ctx context.Context, user identity.User, right identity.Right) (_ context.Context, end func()) {
	ctx, cancel := context.WithTimeout(ctx, followFor)
	var checks sync.WaitGroup
	checks.Go(func() {
		defer cancel()
		ticker := time.NewTicker(followAgain)
		defer ticker.Stop()
		for failures := 0; failures < 2; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := h.access.Authorize(ctx, user, right)
			_, forbidden := errors.AsType[identity.ForbiddenError](err)
			switch {
			case forbidden:
				return
			case err != nil:
				failures++
			default:
				failures = 0
			}
		}
	})
	return ctx, func() {
		cancel()
		checks.Wait()
	}
}
