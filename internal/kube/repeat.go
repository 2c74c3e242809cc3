package kube

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Repeat does something now and after each interval, until its context ends.
func Repeat(log logr.Logger, what string, interval time.Duration, do func(context.Context) error) manager.RunnableFunc {
	return func(ctx context.Context) error {
		for {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				log.Info("cannot "+what+" yet", "reason", err.Error())
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(interval):
			}
		}
	}
}
