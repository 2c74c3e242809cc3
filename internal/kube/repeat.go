package kube

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/rouse-run/rouse/internal/daemon"
)

// Repeat does something now and after each interval, until its context ends.
func Repeat(log logr.Logger, what string, interval time.Duration, do func(context.Context) error) manager.RunnableFunc {
	return func(ctx context.Context) error {
		daemon.Persist(ctx, log, what, interval, do)
		return nil
	}
}
