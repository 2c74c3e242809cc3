package command

import (
	"context"
	"fmt"
	"time"
)

// Await calls check until it returns nil, and gives up after limit with check's last error.
func Await(ctx context.Context, limit, pause time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s not within %s: %w", what, limit, err)
		case <-time.After(pause):
		}
	}
}
