package handler

import (
	"context"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(_ context.Context, _ function.Event) (any, error) {
	fmt.Println("began")
	time.Sleep(1500 * time.Millisecond)
	return map[string]any{"finished": true}, nil
}
