// Package handler is a handler of the contract.
package handler

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(_ context.Context, _ function.Event) (any, error) {
	_, _ = fmt.Fprintln(os.Stdout, "began")
	time.Sleep(1500 * time.Millisecond)
	return map[string]any{"finished": true}, nil
}
