// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(ctx context.Context, _ function.Event) (any, error) {
	if err := function.Emit(ctx, "order.noted", "orders", "grüß dich", function.Attributes{"not-valid": "x"}); err != nil {
		return nil, err
	}
	return map[string]any{"emitted": true}, nil
}
