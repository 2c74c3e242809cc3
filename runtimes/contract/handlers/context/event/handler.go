// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(_ context.Context, _ function.Event) (any, error) {
	return map[string]any{
		"name": function.Name(), "namespace": function.Namespace(), "runtime": function.Runtime(), "timeout": function.Timeout().Seconds(),
	}, nil
}
