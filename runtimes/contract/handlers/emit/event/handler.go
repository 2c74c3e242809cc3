// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(ctx context.Context, event function.Event) (any, error) {
	var was any
	if err := event.DataAs(&was); err != nil {
		return nil, err
	}
	priced := map[string]any{"price": 42, "was": was}
	if err := function.Emit(ctx, "order.priced", "orders", priced, function.Attributes{"eventtypeversion": "v1"}); err != nil {
		return nil, err
	}
	return map[string]any{"emitted": true}, nil
}
