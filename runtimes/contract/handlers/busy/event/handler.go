// Package handler is a handler of the contract.
package handler

import (
	"context"
	"fmt"
	"os"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(_ context.Context, _ function.Event) (any, error) {
	_, _ = fmt.Fprintln(os.Stdout, "began")
	for { //nolint:staticcheck // it never gives up the processor
	}
}
