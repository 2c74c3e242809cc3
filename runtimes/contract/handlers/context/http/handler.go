// Package handler is a handler of the contract.
package handler

import (
	"encoding/json"
	"net/http"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"name": function.Name(), "namespace": function.Namespace(), "runtime": function.Runtime(), "timeout": function.Timeout().Seconds(),
	})
}
