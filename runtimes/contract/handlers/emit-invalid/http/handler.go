// Package handler is a handler of the contract.
package handler

import (
	"encoding/json"
	"net/http"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, r *http.Request) {
	if err := function.Emit(r.Context(), "order.noted", "orders", "grüß dich", function.Attributes{"not-valid": "x"}); err != nil {
		function.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"emitted": true})
}
