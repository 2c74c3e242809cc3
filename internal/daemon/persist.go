package daemon

import (
	"context"
	"time"

	"github.com/go-logr/logr"
)

// Persist does something now, and again after each interval, until ctx ends. The log says what cannot be done yet.
func Persist(ctx context.Context, log logr.Logger, what string, interval time.Duration, do func(context.Context) error) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			log.Info("cannot "+what+" yet", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}
