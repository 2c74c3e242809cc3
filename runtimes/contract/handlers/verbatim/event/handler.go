// Package handler is a handler of the contract.
package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

const text = "$$$ b $(FUNC_NAME) c \\n d \u00e9 ü 漢 🦉 `"

// Handle is the handler.
func Handle(_ context.Context, _ function.Event) (any, error) {
	return text, nil
}
