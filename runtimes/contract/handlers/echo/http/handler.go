// Package handler is a handler of the contract.
package handler

import (
	"encoding/json"
	"net/http"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, r *http.Request) {
	var data any
	if err := json.NewDecoder(r.Body).Decode(&data); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "data": data})
}
