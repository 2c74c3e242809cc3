// Package handler is a handler of the contract.
package handler

import (
	"context"
	"errors"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(_ context.Context, _ function.Event) (any, error) {
	return nil, errors.New("the secret reason")
}
