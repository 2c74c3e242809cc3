// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(_ context.Context, event function.Event) (any, error) {
	var data any
	if err := event.DataAs(&data); err != nil {
		return nil, err
	}
	return map[string]any{
		"id": event.ID, "type": event.Type, "source": event.Source, "version": event.Extensions["eventtypeversion"], "data": data,
	}, nil
}
