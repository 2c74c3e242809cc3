// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(_ context.Context, event function.Event) (any, error) {
	if event.ID == "" {
		return map[string]any{"event": false}, nil
	}
	return map[string]any{"event": true, "specversion": event.SpecVersion, "time": !event.Time.IsZero()}, nil
}
