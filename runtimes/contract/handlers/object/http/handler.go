// Package handler is a handler of the contract.
package handler

import (
	"encoding/json"
	"net/http"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"answer": 42})
}
