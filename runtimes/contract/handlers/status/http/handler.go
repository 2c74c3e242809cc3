// Package handler is a handler of the contract.
package handler

import (
	"io"
	"net/http"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Order", "7")
	w.Header().Set("Content-Type", "application/vnd.order+json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"created": true}`)
}
