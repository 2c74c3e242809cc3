// Package handler is a handler of the contract.
package handler

import (
	"encoding/json"
	"net/http"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, r *http.Request) {
	event, err := function.EventOf(r)
	if err != nil {
		function.Fail(w, err)
		return
	}
	found := map[string]any{"event": false}
	if event != nil {
		found = map[string]any{"event": true, "specversion": event.SpecVersion, "time": !event.Time.IsZero()}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found)
}
