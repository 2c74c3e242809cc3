// Package handler is a handler of the contract.
package handler

import (
	"encoding/json"
	"net/http"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, r *http.Request) {
	var was any
	if err := json.NewDecoder(r.Body).Decode(&was); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	priced := map[string]any{"price": 42, "was": was}
	if err := function.Emit(r.Context(), "order.priced", "orders", priced, function.Attributes{"eventtypeversion": "v1"}); err != nil {
		function.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"emitted": true})
}
