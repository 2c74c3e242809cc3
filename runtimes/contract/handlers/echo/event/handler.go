// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(ctx context.Context, event function.Event) (any, error) {
	var data any
	if err := event.DataAs(&data); err != nil {
		return nil, err
	}
	return map[string]any{"method": function.Request(ctx).Method, "data": data}, nil
}
