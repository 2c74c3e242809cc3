// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(_ context.Context, event function.Event) (any, error) {
	return "got " + string(event.Data), nil
}
