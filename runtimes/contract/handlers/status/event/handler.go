// Package handler is a handler of the contract.
package handler

import (
	"context"
	"net/http"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(context.Context, function.Event) (*function.Response, error) {
	return &function.Response{
		Status: http.StatusCreated,
		Header: http.Header{"X-Order": {"7"}, "Content-Type": {"application/vnd.order+json"}},
		Body:   map[string]any{"created": true},
	}, nil
}
