// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(ctx context.Context, _ function.Event) (any, error) {
	return function.Request(ctx).RequestURI, nil
}
